"""`repotrial image`: images that environments of contracts are, kept unpacked."""

from __future__ import annotations

from typing import Annotated

import typer

from repotrial import api
from repotrial.cli._machine import CacheOption, find_cache
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, counted, print_json

app = noun("image", "Images that are environments: unpacked, found by digest.")

_MEGABYTE = 1024 * 1024


@app.command(
    "import",
    short_help="Unpack an image from a file.",
    epilog="Example: repotrial image import debian.tar",
)
def import_image(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="An oci-archive, an OCI layout directory, or a file of `docker save`; "
            "oci:FILE and docker-archive:FILE say which it must be.",
        ),
    ],
    *,
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="SHA256", help="Which image, where the file has several."),
    ] = None,
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Unpack an image from a file and verify every byte by digest; no daemon and no network are needed.

    It prints what a contract writes: image = "NAME@sha256:...". A file is made by `skopeo copy
    --preserve-digests docker://NAME oci-archive:FILE`, `podman save` or `docker save`.
    """
    image = api.import_image(find_cache(cache), file, digest=digest)
    if json:
        print_json(image)
        return
    screen = Screen()
    _print_image(screen, image)
    for skipped in image.skipped:
        screen.line(f"left out: {skipped}")
    screen.line(f'image = "{image.reference}"')


@app.command("list", epilog="Example: repotrial image list --json")
def list_images(*, cache: CacheOption = None, json: JsonFlag = False) -> None:
    """List the images that are kept."""
    images = api.list_images(find_cache(cache))
    if json:
        print_json(images)
    else:
        _print_images(images, verb="kept")


@app.command(
    "remove",
    short_help="Remove images.",
    epilog="Example: repotrial image remove sha256:0d17b565",
)
def remove_images(
    names: Annotated[
        list[str],
        typer.Argument(metavar="IMAGE...", help="A digest, its first eight digits or more, or a name."),
    ],
    *,
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Remove images; one that a run uses stays."""
    removed = api.remove_images(find_cache(cache), names)
    if json:
        print_json(removed)
    else:
        _print_images(removed, verb="removed")


def _print_images(images: list[api.KeptImage], *, verb: str) -> None:
    screen = Screen()
    for image in images:
        _print_image(screen, image)
    screen.line(f"{counted(len(images), 'image')} {verb}")


def _print_image(screen: Screen, image: api.KeptImage) -> None:
    screen.line(
        (f"{image.size_bytes / _MEGABYTE:>9.1f} MB ", "bold"),
        f"{image.digest}  {image.platform}",
        f"  {', '.join(image.names)}" if image.names else "",
        ("  in use" if image.is_in_use else "", "green"),
    )
