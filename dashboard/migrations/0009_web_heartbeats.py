from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0008_delivery_counts"),
    ]

    operations = [
        migrations.AlterField(
            model_name="heartbeat",
            name="kind",
            field=models.CharField(
                choices=[
                    ("worker_default", "worker of the queue default"),
                    ("worker_analytics", "worker of the queue analytics"),
                    ("beat", "schedule"),
                    ("web", "web process"),
                ],
                max_length=32,
            ),
        ),
    ]
