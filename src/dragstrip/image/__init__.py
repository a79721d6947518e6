"""Images of containers: read, unpacked, kept, and started in a box of their own, without a container engine.

``archive`` reads saved images, ``unpacking`` unpacks them safely, ``images`` keeps them in the cache. ``engines`` gets
them from Docker or Podman, ``building`` lets these build them, and ``outside`` runs their commands. ``box`` makes
bubblewrap's command, ``namespaces`` reaches a box's network. ``kept`` has the folders of the cache that are made once,
which revisions of a repository use as well.
"""

from dragstrip.image.box import (
    DEBIAN,
    OPTIONS,
    PROGRAM,
    USER_NAMESPACE,
    Box,
    Wish,
    boxed,
    bubblewrap,
    facts,
    port_of,
    tried,
)
from dragstrip.image.building import Recipe, agree, agreed, build, built, forget, refuse_without_engine
from dragstrip.image.building import key as build_key
from dragstrip.image.engines import ENGINES, Examined, examined
from dragstrip.image.images import MAX_IMAGES, FoundImage, Image, find, is_unpacked, kept, remove, unpacked
from dragstrip.image.namespaces import may_enter, why_no_user_namespace
