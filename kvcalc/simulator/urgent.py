"""A queue in the order of priorities, and of arrival among equals (vllm/v1/core/sched/request_queue.py)."""

from heapq import heappop, heappush


class Urgent:
    """Requests that wait, the most urgent first, then who came first."""

    def __init__(self, urgency: list[tuple[int, int]]) -> None:
        self.urgency = urgency  # priority, and place among all that ever came
        self._heap: list[tuple[int, int, int]] = []
        self._came = 0

    def append(self, request: int) -> None:
        """One more, behind those that are as urgent."""
        self.urgency[request] = self.urgency[request][0], self._came
        self._came += 1
        self.appendleft(request)

    def appendleft(self, request: int) -> None:
        """Back, to where it was."""
        heappush(self._heap, (*self.urgency[request], request))

    def popleft(self) -> int:
        """The first."""
        return heappop(self._heap)[2]

    def __getitem__(self, place: int) -> int:
        return self._heap[place][2]

    def __len__(self) -> int:
        return len(self._heap)
