from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0007_scope_is_chosen"),
    ]

    operations = [
        migrations.AlterField(
            model_name="delivery",
            name="series",
            field=models.CharField(
                help_text="Of which one goes after the other: a receiver's of one stream or alert.", max_length=300
            ),
        ),
        migrations.CreateModel(
            name="DeliveryCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("to", models.CharField(help_text="webhook or email.", max_length=8)),
                (
                    "outcome",
                    models.CharField(
                        choices=[("done", "Delivered"), ("failed", "To be tried again"), ("dead", "Given up")],
                        max_length=8,
                    ),
                ),
                ("count", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("to", "outcome"), name="delivery_count_once")],
            },
        ),
    ]
