"""A rule alerts on several kinds, which carries over the one that it told of; an alert says what became of it."""

import dashboard.models
import django.core.validators
import django.utils.timezone
from django.db import migrations, models

ABSENCES = ("ended", "not_live")
"""Checks of alerts that are their kinds too; all others are of health."""


def to_kinds(apps, schema_editor):
    Rule, Alert = (apps.get_model("dashboard", name) for name in ("AlertRule", "Alert"))
    for rule in Rule.objects.all():
        rule.kinds, rule.unjudged_since = [rule.about], None
        rule.save(update_fields=["kinds", "unjudged_since"])
    for check in ABSENCES:
        Alert.objects.filter(check_code=check).update(kind=check)


def to_about(apps, schema_editor):
    """Of several the first that a former version knows."""
    Rule = apps.get_model("dashboard", "AlertRule")
    for rule in Rule.objects.all():
        rule.about = next((kind for kind in ("health", *ABSENCES) if kind in rule.kinds), "health")
        rule.save(update_fields=["about"])


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0002_schedule"),
    ]

    operations = [
        migrations.AddField(
            model_name="alert",
            name="end_reason",
            field=models.CharField(
                blank=True,
                help_text="Why the stream ended, if that is what it tells of, or what it cleared by.",
                max_length=32,
            ),
        ),
        migrations.AddField(
            model_name="alert",
            name="kind",
            field=models.CharField(default="health", help_text="A code of dashboard.alerts.kinds.", max_length=16),
        ),
        migrations.AddField(
            model_name="alert",
            name="outcome",
            field=models.CharField(
                blank=True,
                choices=[
                    ("fixed", "Resolved"),
                    ("eased", "Eased"),
                    ("dropped", "Dropped, not fixed"),
                    ("ended", "Ended, not fixed"),
                    ("withdrawn", "No longer watched"),
                ],
                help_text="Empty: it is open.",
                max_length=9,
            ),
        ),
        migrations.AddField(
            model_name="alertrule",
            name="kinds",
            field=models.JSONField(
                default=dashboard.models.waking_kinds, help_text="What it alerts on: codes of dashboard.alerts.kinds."
            ),
        ),
        migrations.AddField(
            model_name="alertrule",
            name="unjudged_since",
            field=models.DateTimeField(
                default=django.utils.timezone.now,
                editable=False,
                help_text="When it was saved, until it has been held against what is so already. Empty: it has.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="alert",
            name="cleared_why",
            field=models.CharField(blank=True, max_length=512),
        ),
        migrations.AlterField(
            model_name="alert",
            name="due_at",
            field=models.DateTimeField(help_text="From when on somebody is notified."),
        ),
        migrations.AlterField(
            model_name="alert",
            name="told",
            field=models.PositiveIntegerField(default=0, help_text="How often messages of it were made."),
        ),
        migrations.AlterField(
            model_name="alert",
            name="told_at",
            field=models.DateTimeField(
                blank=True, help_text="When the last were made. Empty: none yet.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="delay_s",
            field=models.PositiveIntegerField(
                default=30,
                help_text="How long it has to last before anybody is notified.",
                validators=[django.core.validators.MaxValueValidator(86400)],
                verbose_name="delay (s)",
            ),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="emails",
            field=models.TextField(blank=True, validators=[dashboard.models.validate_addresses], verbose_name="e-mail"),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="level",
            field=models.CharField(
                choices=[("warning", "Warning"), ("bad", "Bad")],
                default="bad",
                max_length=8,
                verbose_name="minimum level",
            ),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="repeat_min",
            field=models.PositiveIntegerField(
                default=0,
                help_text="While it is open, until somebody acknowledges it. 0: notified once.",
                validators=[django.core.validators.MaxValueValidator(10080)],
                verbose_name="repeat every (min)",
            ),
        ),
        migrations.RunPython(to_kinds, to_about),
        migrations.RemoveField(
            model_name="alertrule",
            name="about",
        ),
    ]
