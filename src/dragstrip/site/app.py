"""Addresses of the local page. Only GET, only from this machine's own names, nothing is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from dragstrip.analysis.comparison import compare_columns
from dragstrip.errors import DragstripError, StoreError
from dragstrip.extensions import extension
from dragstrip.metrics import KNOWN
from dragstrip.report import comparison, figures, glyphs, pages
from dragstrip.report import history as history_report
from dragstrip.report.race import page as race_page
from dragstrip.report.race.summary import JudgedRace, title
from dragstrip.site import history, views
from dragstrip.store.database import Store

#: Accepted host names: a page elsewhere whose own name points at 127.0.0.1 is refused.
HOSTS = ("127.0.0.1", "localhost")

#: Seconds between two checks of a live view for a new round.
LOOK_S = 0.5

#: Maximum of live views at a time: they hold their connections, of which pages need some, too.
MAX_STREAMS = 64

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

TEMPLATES = Path(__file__).parent / "templates"


def app(store: Path, *, lab: Path | None = None, hosts: Sequence[str] = ()) -> Starlette:
    """The application over one store.

    Args:
        lab: the folder of the lab whose races these are. hosts: further host names, for a proxy in front.
    """
    routes = [
        Route("/", _races),
        Route("/race/{race}", _race),
        Route("/live/{race}", _live),
        Route("/events/{race}", _events),
        Route("/compare", _compare),
        Route("/contender/{name:path}", _contender),
        Route("/history", _history),
        Route("/live.js", _script),
        *([Route("/lab", _lab)] if lab else []),
    ]
    made = Starlette(
        routes=routes,
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[*HOSTS, *hosts], www_redirect=False),
            Middleware(BaseHTTPMiddleware, dispatch=_headed),
        ],
        exception_handlers={DragstripError: _refused},
    )
    made.state.store, made.state.lab, made.state.streams = store, lab, 0
    for name in (*(file.name for file in TEMPLATES.glob("*.j2")), "history_sections.html.j2"):
        _environment().get_template(name)  # read now, not while the first visitor waits
    return made


async def _headed(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
    try:
        response = await call(request)
    except Exception as error:  # a record that can't be shown must fail only this page
        message = figures.visible(
            f"this page can't be shown ({type(error).__name__}: {error}); others can, and please report it"
        )
        response = _page("refused.html.j2", status=500, message=message, title="error")
    response.headers.setdefault("Content-Security-Policy", _POLICY)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store"
    return response


async def _refused(request: Request, error: Exception) -> Response:
    status = 404 if isinstance(error, StoreError) else 400
    return _page("refused.html.j2", status=status, message=str(error), title="not found")


def _store(request: Request) -> Path:
    return Path(request.app.state.store)


def _races(request: Request) -> Response:
    query = request.query_params.get("q", "")
    races = views.listed(_store(request), query)
    verdicts = views.verdicts(_store(request))
    return _page("races.html.j2", title="races", races=races, verdicts=verdicts, query=query, store=_store(request))


def _race(request: Request) -> Response:
    with Store(_store(request), write=False) as store:
        race_id = store.resolve(request.path_params["race"])
    text = _drawn(str(_store(request)), race_id, *views.state(_store(request), race_id))
    # The page brings a policy of its own, with its scripts' digests.
    return HTMLResponse(text, headers={"Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'"})


@lru_cache(maxsize=8)
def _drawn(store: str, race_id: str, _rounds: int, _finished: str) -> str:
    with Store(Path(store), write=False) as kept:
        race = kept.load(race_id)
    return race_page.render(JudgedRace.of(race))


def _live(request: Request) -> Response:
    standings = views.standings(_store(request), request.path_params["race"])
    return _page(
        "live.html.j2",
        title="live",
        race=standings.race,
        about=title(standings.race),
        fragment=Markup(_fragment(standings)),
    )


def _fragment(standings: views.Standings) -> str:
    template = _environment().get_template("standings.html.j2")
    return template.render(vars(standings))


def _script(request: Request) -> Response:
    text = (Path(__file__).parent / "templates" / "live.js").read_text(encoding="utf-8")
    return Response(text, media_type="text/javascript")


async def _events(request: Request) -> Response:
    store, race_id = _store(request), request.path_params["race"]
    await run_in_threadpool(views.state, store, race_id)  # an unknown race is refused before the stream begins
    if request.app.state.streams >= MAX_STREAMS:
        return Response(f"there are {MAX_STREAMS} live views already; close one\n", status_code=503)
    return StreamingResponse(_stream(request, store, race_id), media_type="text/event-stream")


async def _stream(request: Request, store: Path, race_id: str) -> AsyncIterator[str]:
    """One event per committed round, and one at the end; regular comments detect clients that have left."""
    request.app.state.streams += 1
    try:
        async for text in _rounds(request, store, race_id):
            yield text
    finally:
        request.app.state.streams -= 1


async def _rounds(request: Request, store: Path, race_id: str) -> AsyncIterator[str]:
    shown: tuple[int, str] | None = None
    idle = 0
    while not await request.is_disconnected():
        now = await run_in_threadpool(views.state, store, race_id)
        if now != shown:
            standings = await run_in_threadpool(views.standings, store, race_id)
            race = standings.race
            data = {"html": _fragment(standings), "rounds": len(race.rounds), "finished": race.finished}
            yield f"event: round\ndata: {json.dumps(data)}\n\n"
            shown = len(race.rounds), race.finished
            if race.finished:
                return
        elif (idle := idle + 1) % 20 == 0:
            yield ": still here\n\n"
        await asyncio.sleep(LOOK_S)


def _compare(request: Request) -> Response:
    old, new = (request.query_params.get(which, "") for which in ("old", "new"))
    if not old or not new:
        return _page("refused.html.j2", status=400, message="choose two races: then and now", title="compare")
    with Store(_store(request), write=False) as store:
        races = store.load(old), store.load(new)
    columns = compare_columns(*races)
    return _page("compare.html.j2", title="compare", columns=columns, old=races[0].id, new=races[1].id)


def _contender(request: Request) -> Response:
    name, workload = request.path_params["name"], request.query_params.get("workload", "")
    points = views.history(_store(request), name, workload)
    if not points:
        raise StoreError(f"contender {name!r} has numbers in no stored race")
    drawn = Markup(history.chart(points))
    return _page("contender.html.j2", title=name, name=name, points=list(reversed(points)), chart=drawn)


def _history(request: Request) -> Response:
    listed = views.series(_store(request), request.query_params.get("name", ""))
    judged = [history_report.JudgedSeries.of(series) for series in listed]
    return _page("history.html.j2", title="history", sections=history_report.sections(judged), link=True)


def _lab(request: Request) -> Response:
    return HTMLResponse(extension("lab's page").of_folder(Path(request.app.state.lab)))


def _page(template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    return HTMLResponse(_environment().get_template(template).render(**values), status_code=status)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = pages.templates(TEMPLATES, Path(history_report.__file__).parent)
    made.globals |= {"marks": glyphs.VERDICT_MARK, "comparison": comparison, "known": KNOWN}
    made.globals["requested"] = views.requested
    return made
