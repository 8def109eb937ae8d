"""Log-in and log-out: Django's, with a limit on failed tries. The admin's log-in is this one too."""

import logging
from typing import Any

from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy

from dashboard import devices, loginlog
from dashboard.actors import actor_of
from dashboard.throttle import ACCOUNT, WAIT_S, Limit, Tries
from ingest.services import audit

logger = logging.getLogger(__name__)

WRONG = "User or password is wrong."
NOT_STAFF = "Your account may not open the admin pages. Ask an admin to mark it as staff."


class LoginForm(AuthenticationForm):
    """User and password; counts failures by address and user, and by user alone from where nobody is known."""

    def clean(self) -> dict[str, Any]:
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if not username or not password or self.request is None:
            return super().clean()
        device = devices.device_of(self.request, username)
        tries = Tries(str(self.request.META.get("REMOTE_ADDR", "")), username, device)
        wait = f"{WAIT_S // 60} min"
        limit = tries.begin()
        if limit is not None and not (limit is ACCOUNT and loginlog.is_known(username, tries.address)):
            # The user's name stays out of the log: people type passwords into that field.
            logger.warning("Log-in refused for %s: too many failures (of the %s)", tries.address, limit.scope)
            raise ValidationError(self._refusal(limit, username), code="throttled")
        try:
            cleaned = super().clean()
        except ValidationError:
            logger.info("Log-in failed from %s", tries.address)
            loginlog.failed(username, tries.address)
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
        loginlog.limited(username)
        return (
            f"Too many failed tries at this user, from many addresses. For {limit.wait_s // 60} min it can log in only "
            f"with a browser, or from an address, with which it did so in the last {devices.KNOWN.days} days."
        )


class LoginView(auth_views.LoginView):
    template_name = "dashboard/login.html"
    form_class = LoginForm

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        with transaction.atomic():
            answer = super().form_valid(form)
            audit.record(actor_of(self.request), loginlog.IN, self.request.user.get_username())
        devices.remember(answer, self.request.user.get_username())
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
    if request.user.is_authenticated and not request.user.is_staff:
        raise PermissionDenied(NOT_STAFF)
    return redirect_to_login(request.GET.get("next") or "/admin/")


class PasswordView(auth_views.PasswordChangeView):
    """Everybody who may log in changes the own password here; the account's other sessions end."""

    template_name = "dashboard/password.html"
    success_url = reverse_lazy("dashboard:password")

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            answer = super().form_valid(form)
            audit.record(actor_of(self.request), "password.change", self.request.user.get_username())
        messages.success(self.request, "Your password is changed. Where else you were logged in, you no longer are.")
        return answer
