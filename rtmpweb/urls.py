"""The URLs of the whole project."""

from django.contrib import admin
from django.urls import include, path

from dashboard.api import api
from dashboard.views.login import admin_login

urlpatterns = [
    path("", include("dashboard.urls")),
    path("api/v1/", api.urls),
    path("admin/login/", admin_login),  # Before the admin's own: there is one log-in page, with one limit on failures.
    path("admin/", admin.site.urls),
]
