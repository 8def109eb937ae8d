"""The URLs of the whole project."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from dashboard.accounts import admin_login, logout
from dashboard.api import api

admin.autodiscover()

handler500 = "dashboard.system.unavailable.server_error"

urlpatterns = [
    path("favicon.ico", RedirectView.as_view(url=static("dashboard/favicon.svg"))),  # Pages of the admin name none.
    path("", include("dashboard.urls")),
    path("api/v1/", api.urls),
    path("admin/login/", admin_login),  # Before the admin's own: there is one log-in page, with one limit on failures.
    path("admin/logout/", logout),  # And one log-out, which is written down.
    path("admin/", admin.site.urls),
]
