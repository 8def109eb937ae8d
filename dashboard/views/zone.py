"""The page on which an account chooses the time zone of its pages."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from dashboard import zones
from dashboard.actors import actor_of
from dashboard.models import Preferences
from dashboard.views.theme import YEAR_S, way_back


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
