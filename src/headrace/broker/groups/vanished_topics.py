"""Topics of which something is kept and that there are no more.

Owns: telling them from topics that are not known yet. Must not know: what is kept of them.

Who deletes a topic tells the brokers, and each forgets what it keeps of it. A coordinator that was
down or on its way was not told, and finds in its log the id of a topic that the image does not
have. An image that is read anew is short of topics too, for a while: a topic is gone when two looks
in a row miss it, and no look counts whose image knows less than the last one's. Ids never return.
"""

from collections.abc import Callable, Iterable

from headrace.cluster.image import ClusterImage


class VanishedTopics:
    def __init__(self, image_source: Callable[[], ClusterImage]) -> None:
        self._image_source = image_source
        self._image_offset = -1
        self._missed: frozenset[bytes] = frozenset()

    def look(self, topic_ids: Iterable[bytes]) -> frozenset[bytes]:
        """Of these, the ids of topics that are gone. Ids of nothing but zeros are nobody's."""
        image = self._image_source()
        if image.last_offset < self._image_offset:
            return frozenset()
        self._image_offset = image.last_offset
        before, self._missed = (
            self._missed,
            frozenset(each for each in topic_ids if any(each) and each not in image.topics_by_id),
        )
        return self._missed & before
