"""Accounts: log-in, log-out, password, and what somebody chooses for the pages (theme, time zone).

The log-in is Django's, with a limit on failed tries (`Tries`); the admin's is this one too. Of failed ones
as many go into the audit log as tell what goes on. A browser that has logged in to an account has a signed cookie, by
which the log-in page knows it again: it opens nothing, and only spares it the limit that strangers' failures at the
account lead to (`ACCOUNT`); without it that limit would let anybody lock the account's owner out."""

import hashlib
import logging
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST

from dashboard import zones
from dashboard.access import actor_of
from dashboard.models import Preferences
from dashboard.throttle import Limit
from ingest import clean
from ingest.addresses import unit_or_itself
from ingest.models import AuditEntry
from ingest.services import audit
from ingest.services.audit import Actor

DEVICE_KNOWN = timedelta(days=30)
"""For so long after the last log-in a browser, and an address, is known."""

DEVICE_SALT = "dashboard.device"


def device_of(request: HttpRequest, username: str) -> str:
    """The browser's own number, if it has logged in to the account; "" if it is not known."""
    found = request.get_signed_cookie(cookie_name(username), default="", salt=DEVICE_SALT, max_age=DEVICE_KNOWN)
    return str(found)


def remember_device(answer: HttpResponse, username: str) -> None:
    answer.set_signed_cookie(
        cookie_name(username),
        secrets.token_urlsafe(16),
        salt=DEVICE_SALT,
        max_age=DEVICE_KNOWN,
        path=reverse("dashboard:login"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def cookie_name(username: str) -> str:
    """Of the account: several people may use one browser."""
    return f"known_{hashlib.sha256(username.casefold().encode()).hexdigest()[:16]}"


WAIT_S = 300

PAIR = Limit("pair", 10, WAIT_S, extends=True)  # One address that guesses at one user.
ADDRESS = Limit("address", 60, WAIT_S, extends=True)  # One address that goes through many users.
ACCOUNT = Limit("account", 100, extends=True)  # Many addresses that guess at one user, none of which is known.
DEVICE = Limit("device", 10, WAIT_S, extends=True)  # A browser known for one user: its cookie may have been taken.


@dataclass(frozen=True, slots=True)
class Tries:
    """One address's tries at one user; of IPv6 its /64 counts as one. `device`: the browser's, if it is known."""

    address: str
    username: str
    device: str = ""

    def begin(self) -> Limit | None:
        """Count a try before the password is looked at, so that parallel guesses count too. The limit that refuses it.

        ACCOUNT does so where the browser is not known. Who comes from an address that is known may be let in all the
        same: else strangers could lock out the account's owner.
        """
        over = [limit for limit in (PAIR, ADDRESS) if limit.add(*self._subject(limit)) > limit.most]
        if over:
            return over[0]
        if self.device and DEVICE.add(*self._subject(DEVICE)) <= DEVICE.most:
            return None
        return ACCOUNT if ACCOUNT.add(*self._subject(ACCOUNT)) > ACCOUNT.most else None

    def succeeded(self) -> None:
        """Take the counted try back. Other failures of the address and at the account stay, or one own account would
        reset the one, and its owner's log-in the other.
        """
        for limit in (PAIR, DEVICE):
            limit.forget(*self._subject(limit))
        for limit in (ADDRESS,) if self.device else (ADDRESS, ACCOUNT):
            limit.take_back(*self._subject(limit))

    @property
    def left(self) -> int:
        return max(0, min(limit.most - limit.count(*self._subject(limit)) for limit in (PAIR, ADDRESS)))

    def _subject(self, limit: Limit) -> tuple[str, ...]:
        address, user = unit_or_itself(self.address), self.username.casefold()
        return {PAIR: (address, user), ADDRESS: (address,), ACCOUNT: (user,), DEVICE: (self.device, user)}[limit]


LOGIN = "login"
LOGIN_FAILED = "login.fail"
LOGIN_LIMITED = "login.limit"

MOST_OF_ADDRESS = 10
"""Entries within the log-in's wait, of one address,"""
MAX_OF_ALL = 200
"""and of all, whoever has many addresses."""

MAX_LOGINS = 1000
"""Of an account, that are searched for an address."""


def record_failure(username: str, address: str) -> None:
    """A name that is no user's isn't written down: people type passwords into that field."""
    recent = AuditEntry.objects.filter(action=LOGIN_FAILED, at__gt=timezone.now() - timedelta(seconds=WAIT_S))
    of_address = recent.filter(address=clean.text(address, 64)).count()
    if of_address >= MOST_OF_ADDRESS or recent.count() >= MAX_OF_ALL:
        return
    user = _user(username)
    name = user.get_username() if user is not None else "somebody"
    is_last = of_address == MOST_OF_ADDRESS - 1
    note = f"More of this address within {WAIT_S // 60} min are not written down." if is_last else ""
    audit.record(Actor(name, user, address), LOGIN_FAILED, name if user is not None else "an unknown user", note=note)


def record_limit(username: str) -> None:
    """That an account has reached its limit: once an hour."""
    user = _user(username)
    since = timezone.now() - timedelta(seconds=ACCOUNT.wait_s)
    if user is None or AuditEntry.objects.filter(action=LOGIN_LIMITED, user=user, at__gt=since).exists():
        return
    note = f"After {ACCOUNT.most} failures from many addresses only known browsers and addresses may try."
    audit.record(Actor(user.get_username(), user), LOGIN_LIMITED, user.get_username(), note=note)


def is_known(username: str, address: str) -> bool:
    """Whether somebody logged in to the account from the address lately; of IPv6 from its /64."""
    user = _user(username)
    if user is None:
        return False
    entries = AuditEntry.objects.filter(action=LOGIN, user=user, at__gt=timezone.now() - DEVICE_KNOWN).order_by("-at")
    known = set(entries.values_list("address", flat=True)[:MAX_LOGINS])
    return unit_or_itself(address) in {unit_or_itself(each) for each in known}


def _user(username: str) -> User | None:
    return User.objects.filter(username=username).first() if clean.fits(username) else None


THEME_COOKIE = "theme"
THEMES = ("light", "dark")
YEAR_S = 365 * 24 * 3600


REFUSED_COOKIE = "refused_seen"
"""Until when somebody at this browser has seen what was refused, in seconds since the epoch: set by pages' scripts."""


def refused_seen_at(request: HttpRequest) -> float:
    text = request.COOKIES.get(REFUSED_COOKIE, "")[:20]
    return float(text) if text.isascii() and text.isdigit() else 0.0


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keep `theme` (light, dark; anything else: follow the system), and go back to the page `next`."""
    response = HttpResponseRedirect(way_back(request))
    chosen = request.POST.get("theme", "")
    if chosen in THEMES:
        # Not HttpOnly: the page's own script may set it too, to switch without a round trip.
        response.set_cookie(THEME_COOKIE, chosen, max_age=YEAR_S, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE)
    else:
        response.delete_cookie(THEME_COOKIE, samesite="Lax")
    return response


def way_back(request: HttpRequest) -> str:
    """The page `next`, if it is one of ours."""
    back = request.POST.get("next") or request.GET.get("next", "")
    ours = url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure())
    return back if ours else reverse("dashboard:wall")


class ZoneForm(forms.Form):
    zone = forms.CharField(max_length=64, required=False, empty_value="")
    shows_utc = forms.BooleanField(required=False)

    def clean_zone(self) -> str:
        name: str = self.cleaned_data["zone"]
        if name and zones.named(name) is None:
            raise ValidationError(f"There is no time zone {name}. Give one such as Europe/Berlin, or UTC.")
        return name


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def zone(request: HttpRequest) -> HttpResponse:
    """Keeps `zone` (a name; empty: as the browser has it) and `shows_utc`, and goes back to the page `next`."""
    form = ZoneForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        Preferences.objects.update_or_create(user=actor_of(request).user, defaults=form.cleaned_data)
        response = HttpResponseRedirect(way_back(request))
        name = form.cleaned_data["zone"]
        if name:
            secure = settings.SESSION_COOKIE_SECURE
            response.set_cookie(zones.CHOSEN, name, max_age=YEAR_S, samesite="Lax", secure=secure, httponly=True)
        else:
            response.delete_cookie(zones.CHOSEN, samesite="Lax")
        return response
    if not form.is_bound:
        now = zones.of(request)
        form.initial = {"zone": now.name if now.by == "choice" else "", "shows_utc": now.shows_utc}
    context: dict[str, Any] = {"form": form, "names": zones.names(), "next": way_back(request)}
    return render(request, "dashboard/zone.html", context, status=422 if form.is_bound else 200)


logger = logging.getLogger(__name__)

WRONG = "User or password is wrong."
NO_SETTINGS = "Settings are for the roles admin and key manager: ask an administrator (Settings, Users and roles)."


class LoginForm(AuthenticationForm):
    """User and password; counts failures by address and user, and by user alone from where nobody is known."""

    def clean(self) -> dict[str, Any]:
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if not username or not password or self.request is None:
            return super().clean()
        device = device_of(self.request, username)
        tries = Tries(str(self.request.META.get("REMOTE_ADDR", "")), username, device)
        wait = f"{WAIT_S // 60} min"
        limit = tries.begin()
        if limit is not None and not (limit is ACCOUNT and is_known(username, tries.address)):
            # The user's name stays out of the log: people type passwords into that field.
            logger.warning("Log-in refused for %s: too many failures (of the %s)", tries.address, limit.scope)
            raise ValidationError(self._refusal(limit, username), code="throttled")
        try:
            cleaned = super().clean()
        except ValidationError:
            logger.info("Log-in failed from %s", tries.address)
            record_failure(username, tries.address)
            left = tries.left
            if left:
                after = f"After {left} more {'try' if left == 1 else 'tries'} this address must wait {wait}."
            else:
                after = f"This address must now wait {wait}."
            raise ValidationError(f"{WRONG} {after}", code="invalid_login") from None
        tries.succeeded()
        return cleaned

    @staticmethod
    def _refusal(limit: Limit, username: str) -> str:
        if limit is not ACCOUNT:
            return f"Too many failed tries. This address must wait {limit.wait_s // 60} min."
        record_limit(username)
        return (
            f"Too many failed tries at this user, from many addresses. For {limit.wait_s // 60} min it can log in only "
            f"with a browser, or from an address, with which it did so in the last {DEVICE_KNOWN.days} days."
        )


class LoginView(auth_views.LoginView):
    template_name = "dashboard/login.html"
    form_class = LoginForm

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        with transaction.atomic():
            answer = super().form_valid(form)
            audit.record(actor_of(self.request), LOGIN, self.request.user.get_username())
        remember_device(answer, self.request.user.get_username())
        return answer


class LogoutView(auth_views.LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with transaction.atomic():
            if request.user.is_authenticated:
                audit.record(actor_of(request), "logout", request.user.get_username())
            return super().post(request, *args, **kwargs)


logout = LogoutView.as_view()


def admin_login(request: HttpRequest) -> HttpResponse:
    """Where the admin sends whom it doesn't let in: to the one log-in page, or a 403 for who is already logged in."""
    if request.user.is_authenticated:
        raise PermissionDenied(NO_SETTINGS)
    return redirect_to_login(request.GET.get("next") or "/admin/")


class PasswordView(auth_views.PasswordChangeView):
    """Everybody who may log in changes the own password here; the account's other sessions end."""

    template_name = "dashboard/password.html"
    success_url = reverse_lazy("dashboard:password")

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            answer = super().form_valid(form)
            audit.record(actor_of(self.request), "password.change", self.request.user.get_username())
        messages.success(self.request, "Your password is changed. You are logged out everywhere else.")
        return answer
