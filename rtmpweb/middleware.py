"""Static files from the application itself, at no cost to the other requests; whose host is checked."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware

from dashboard.unavailable import OPEN_PATHS

Handler = Callable[[HttpRequest], Any]


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise, but native to both kinds of server.

    WhiteNoise's own class is synchronous, so under ASGI every request would take a detour over a thread, and a file
    would be streamed by an iterator that Django then has to collect, with a warning. The files here are small, as they
    are read in the event loop and stand in memory for each who asks: `ninja` is no installed application for its 8 MiB
    of scripts, which the API's own page does not need.
    """

    sync_capable = True
    async_capable = True

    found: ClassVar[dict[str, Any]] = {}
    """{path: file}: they stand in the tree's folders, which are gone through once a process, not once a handler."""

    def __init__(self, get_response: Handler) -> None:
        super().__init__(get_response)
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        found = self.find_file(request.path_info) if self.autorefresh else self.files.get(request.path_info)
        if found is None:
            passed_on: HttpResponseBase | Awaitable[HttpResponseBase] = self.get_response(request)
            return passed_on
        response = self.serve(found, request)
        return finished(response) if self.is_async else response

    def add_files_from_finders(self) -> None:
        if self.found:
            self.files.update(self.found)
        else:
            super().add_files_from_finders()
            self.found.update(self.files)

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        answer = static_file.get_response(request.method, request.META)
        content = b""
        if answer.file is not None:
            with answer.file:
                content = answer.file.read()
        response = HttpResponse(content, status=int(answer.status))
        del response["content-type"]
        for name, value in answer.headers:
            response[name] = value
        return response


class HostMiddleware(CommonMiddleware):
    """Django's own, which refuses hosts that are not allowed; but anybody may ask for the health under any.

    A container's own check and a load balancer ask by an address. The answer depends on no host and names none.
    """

    def process_request(self, request: HttpRequest) -> Any:
        return None if request.path in OPEN_PATHS else super().process_request(request)


class NoStoreMiddleware(MiddlewareMixin):
    """What an answer says is kept by no browser and no proxy, unless its view says otherwise: pages are for who is
    logged in now.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if not response.has_header("Cache-Control"):
            response["Cache-Control"] = "no-store"
        return response


async def finished(response: HttpResponse) -> HttpResponse:
    return response
