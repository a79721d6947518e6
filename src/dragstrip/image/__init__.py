"""Images of containers: read, unpacked, kept, and started in a box of their own, without a container engine.

``archive`` reads saved images, ``unpacking`` unpacks them safely, ``images`` keeps them in the cache, and ``engines``
gets them from Docker or Podman. ``box`` makes bubblewrap's command, ``namespaces`` reaches a box's network. ``kept``
has the folders of the cache that are made once, which revisions of a repository use as well.
"""

from dragstrip.image.box import DEBIAN, PROGRAM, USER_NAMESPACE, Box, Wish, boxed, bubblewrap, facts, port_of
from dragstrip.image.images import MAX_IMAGES, Found, Image, find, is_unpacked, kept, remove, unpacked
from dragstrip.image.namespaces import may_enter, within
