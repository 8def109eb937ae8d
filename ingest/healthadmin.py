"""How a stream's health is judged, on the stream's page in the admin."""

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from ingest.live.health import CHECKS, Figures
from ingest.live.health.check import Check
from ingest.models import HealthOverride, Stream

if TYPE_CHECKING:
    OverrideFormBase = forms.ModelForm[HealthOverride]
    OverrideInlineBase = admin.TabularInline[HealthOverride, Stream]
else:
    OverrideFormBase, OverrideInlineBase = forms.ModelForm, admin.TabularInline

MAY = "ingest.change_stream"
"""Whoever may change a stream may say how it is judged."""

BY_CODE: Final = {check.code: check for check in CHECKS}


def _choice(check: Check[Figures]) -> tuple[str, str]:
    limits = " / ".join(f"{check.limit(level):g}" for level in reversed(check.levels))
    side = "under" if check.is_low else "over"
    return check.code, f"{check.name} ({check.code}): {side} {limits} {check.unit}, {check.hold_s:g} s"


class HealthOverrideForm(OverrideFormBase):
    check_code = forms.ChoiceField(
        label="check",
        choices=[("", "—"), *map(_choice, CHECKS)],
        help_text="With its limits for a warning and an error, and its hold, as they are without this.",
    )

    class Meta:
        model = HealthOverride
        fields = ("check_code", "enabled", "warning", "bad", "hold_s")
        help_texts = {
            "warning": "In the check's unit. Empty: as it is.",
            "bad": "The same. Some checks have warnings only.",
        }

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        check = BY_CODE.get(values.get("check_code", ""))
        if check is None:
            return values
        warning, bad = values.get("warning"), values.get("bad")
        if bad is not None and "bad" not in check.levels:
            self.add_error("bad", "This check has no error level: leave it empty.")
        elif bad is not None and check.measure_bad is None:
            first = check.warning if warning is None else warning
            if bad > first if check.is_low else bad < first:
                side = "higher" if check.is_low else "lower"
                self.add_error("bad", f"The error level can't be {side} than the warning's, {first:g} {check.unit}.")
        return values


class HealthOverrideInline(OverrideInlineBase):
    model = HealthOverride
    form = HealthOverrideForm
    extra = 0
    verbose_name = "health check"
    verbose_name_plural = "health checks with limits of their own (a live stream is judged by them within seconds)"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(MAY) or request.user.has_perm("ingest.view_stream")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(MAY)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(MAY)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(MAY)
