"""What several report deliveries are called."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("analytics", "0011_when_a_partition_waits"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="reportdelivery",
            options={"ordering": ["recipient"], "verbose_name_plural": "report deliveries"},
        ),
    ]
