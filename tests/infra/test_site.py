"""The site is built from the pages and the code, and needs nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.servers.cache import cache_directory, made_once
from perdure.telemetry import names

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "infra" / "locks" / "docs.lock"
_ASSET = re.compile(r"<(?:script|img|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)", re.IGNORECASE)


def _install(target: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", target], check=True)
    install: list[str | Path] = ["-m", "pip", "install", "--quiet", "--require-hashes", "-r", LOCK]
    subprocess.run([target / "bin" / "python", *install], check=True)


def _python() -> Path:
    """The interpreter of a virtual environment with what the lock names, made once for each lock."""
    kind = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    return made_once(cache_directory() / f"docs-{kind}", _install) / "bin" / "python"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [_python(), "-m", "mkdocs", "build", "--strict", "--site-dir", folder], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """This checkout, with a copy of its pages that a test may change."""
    for each in ROOT.iterdir():
        if each.name not in ("build", "docs", ".git"):
            (tmp_path / each.name).symlink_to(each)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


def _make_docs(checkout: Path) -> subprocess.CompletedProcess[str]:
    environment = _python().parents[1]
    (environment / ".stamp").touch()
    return subprocess.run(
        ["make", "docs", f"DOCS={environment}"],
        cwd=checkout,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_make_docs_fails_on_links_and_anchors_that_lead_nowhere(checkout: Path) -> None:
    with (checkout / "docs" / "scale.md").open("a") as page:
        page.write("\nSee [the feed](feed.md#no-such-anchor) and [the feed](no-such-page.md).\n")
    made = _make_docs(checkout)
    assert made.returncode != 0
    assert "does not contain an anchor '#no-such-anchor'" in made.stdout
    assert "link 'no-such-page.md'" in made.stdout


def test_make_docs_fails_on_a_misspelt_word(checkout: Path) -> None:
    with (checkout / "docs" / "scale.md").open("a") as page:
        page.write("\nThis is " + "definate" + "ly wrong.\n")
    made = _make_docs(checkout)
    assert made.returncode != 0
    assert "==> definitely" in made.stdout


@pytest.mark.parametrize(
    ("page", "part"),
    [
        ("reference/api.html", 'id="perdure.Effect"'),
        ("reference/api.html", 'id="perdure.testing.rehearse"'),
        ("settings.html", "PERDURE_DATABASE_URL"),
        ("reference/sql.html", 'id="perdurestart"'),
        ("reference/metrics.html", names.IN_DOUBT.name),
        ("errors.html", "PERDURE-2103"),
        ("reference/command.html", 'id="perdure-grant"'),
        ("effects.html", 'type="text/markdown" href="effects.md"'),
        ("operating.html", '<a href="images/web-ui.png"><img '),
        ("operating.html", "site.css"),
        ("decisions.html", '">3. <code>run</code>'),
        ("llms.txt", "(start/README.md)"),
        ("llms-full.txt", "PERDURE-2103"),
    ],
)
def test_the_site_holds(site: Path, page: str, part: str) -> None:
    assert part in (site / page).read_text("utf-8")


def test_each_page_stands_as_markdown_beside_its_html(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        beside = site / page.relative_to(ROOT / "docs")
        assert beside.read_text("utf-8").partition("\n")[0] == page.read_text("utf-8").partition("\n")[0]
        assert beside.with_name("index.html" if page.stem == "README" else f"{page.stem}.html").exists()


def test_llms_txt_lists_only_files_that_are_there(site: Path) -> None:
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text("utf-8"))
    assert len(listed) >= len(list((ROOT / "docs").rglob("*.md")))
    assert [place for place in listed if not (site / place).is_file()] == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert {asset for page in pages for asset in _ASSET.findall(page.read_text("utf-8"))} == set()
    styles = [file.read_text("utf-8") for file in site.rglob("*.css")]
    assert [url for text in styles for url in re.findall(r"url\(['\"]?(https?://[^)]*)", text)] == []
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))


def test_an_asset_from_elsewhere_is_seen() -> None:
    assert _ASSET.findall('<link rel=stylesheet href="https://a.b/c.css"><a href="https://a.b">') == [
        "https://a.b/c.css"
    ]
