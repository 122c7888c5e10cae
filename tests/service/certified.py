"""A platform process on the world of the AuthZEN certification scenario."""

from tests.service.running import Running


class Certified(Running):
    """Its operations, its kind of resource and its roles stand beside what the platform ships."""

    forked = False

    def program(self) -> list[str]:
        return ["-m", "tests.service.certified_platform"]
