"""Which topics are gone, told from those that are not known yet."""

from tests.unit.broker.groups.stage import image_of, topic_image

from headrace.broker.groups.vanished_topics import VanishedTopics
from headrace.cluster.image import ClusterImage

T, U = (topic_image(name).topic_id for name in "tu")


def known(*names: str, last_offset: int) -> ClusterImage:
    image = image_of(*(topic_image(name) for name in names))
    image.last_offset = last_offset
    return image


def test_a_topic_is_gone_when_two_looks_miss_it() -> None:
    images = iter([known("t", "u", last_offset=5)] + [known("t", last_offset=6)] * 3)
    vanished = VanishedTopics(lambda: next(images))
    assert [vanished.look([T, U, bytes(16)]) for _ in range(4)] == [set(), set(), {U}, {U}]


def test_a_topic_that_is_there_again_was_never_gone() -> None:
    images = iter([known(last_offset=5), known("t", last_offset=6), *[known(last_offset=7)] * 2])
    vanished = VanishedTopics(lambda: next(images))
    assert [vanished.look([T]) for _ in range(4)] == [set(), set(), set(), {T}]


def test_an_image_that_knows_less_than_the_last_one_is_not_asked() -> None:
    offsets = [5, 5, 3, 4, 5, 6]
    images = iter(
        known(*(["t"] if number in (0, 1, 4, 5) else []), last_offset=offset)
        for number, offset in enumerate(offsets)
    )
    vanished = VanishedTopics(lambda: next(images))
    assert [vanished.look([T]) for _ in offsets] == [set()] * len(offsets)
