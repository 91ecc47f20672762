"""What `read_builds` makes of many builds, of builds that Temporal has forgotten, and of an answer that is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus as Status
from temporalio.api.workflowservice.v1 import DescribeTaskQueueResponse, DescribeWorkerDeploymentResponse
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure._operations.builds import _BUILD, in_use, read_builds
from perdure.settings import Settings

CURRENT = Status.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT
DRAINING = Status.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING
DRAINED = Status.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED
CONFIG = Settings(database_url="postgresql://nowhere", deployment="shop:1")


class Temporal:
    """Answers as Temporal does, for the deployment `shop`.

    Args:
        builds: the status of each build, the oldest first.
        counts: the open lifecycles of those that have some.
        problem: why it lists none.
    """

    namespace = "default"

    def __init__(
        self, builds: Mapping[str, Status.ValueType], counts: Mapping[str, int], problem: RPCError | None = None
    ) -> None:
        self._builds = builds
        self._problem = problem
        self._counts = {f"shop:{build}": count for build, count in counts.items()}
        self.workflow_service = SimpleNamespace(
            describe_worker_deployment=self._describe, describe_task_queue=self._describe_queue
        )

    async def _describe_queue(self, asked: Any, timeout: Any) -> DescribeTaskQueueResponse:
        return DescribeTaskQueueResponse()

    async def _describe(self, asked: Any, timeout: Any) -> DescribeWorkerDeploymentResponse:
        found = DescribeWorkerDeploymentResponse()
        for second, (build, status) in enumerate(self._builds.items()):
            summary = found.worker_deployment_info.version_summaries.add(status=status)
            summary.deployment_version.CopyFrom(WorkerDeploymentVersion(deployment_name="shop", build_id=build))
            summary.create_time.FromSeconds(1_700_000_000 + second)
        return found

    async def list_workflows(self, query: str, **options: Any) -> AsyncIterator[Any]:
        if self._problem:
            raise self._problem
        for version in self._counts:
            if f"'{version}'" not in query:
                yield SimpleNamespace(typed_search_attributes={_BUILD: version})
                return

    async def count_workflows(self, query: str, **options: Any) -> Any:
        [count] = [count for version, count in self._counts.items() if f"= '{version}'" in query]
        return SimpleNamespace(count=count)


async def builds(temporal: Temporal) -> list[dict[str, Any]]:
    return await read_builds(cast(Client, temporal), CONFIG)


async def test_the_oldest_of_many_builds_is_shown_as_long_as_lifecycles_are_open_on_it() -> None:
    drained = {str(number): DRAINED for number in range(2, 25)}
    found = await builds(Temporal({"1": DRAINING, **drained, "25": CURRENT}, {"1": 12, "25": 3}))
    assert len(found) == 25
    assert [(each["build"], each["open"], each["must_stay"]) for each in found if in_use(each)] == [
        ("25", 3, True),
        ("1", 12, True),
    ]


async def test_after_a_rollback_to_an_older_build_the_current_one_is_shown() -> None:
    newer = {str(number): DRAINED for number in range(2, 26)}
    [found] = [each for each in await builds(Temporal({"1": CURRENT, **newer}, {})) if in_use(each)]
    assert (found["build"], found["status"], found["must_stay"]) == ("1", "current", True)


async def test_a_build_that_temporal_has_deleted_stays_while_lifecycles_are_open_on_it() -> None:
    found = {each["build"]: each for each in await builds(Temporal({"2": CURRENT}, {"1": 4}))}
    assert (found["1"]["open"], found["1"]["must_stay"], found["1"]["since"]) == (4, True, None)


async def test_builds_of_which_temporal_does_not_answer_what_is_open_must_stay() -> None:
    away = RPCError("the list of workflows is away", RPCStatusCode.UNAVAILABLE, b"")
    [found] = await builds(Temporal({"1": DRAINING, "2": CURRENT}, {"1": 12}, away))
    assert (found["error"], found["must_stay"]) == ("Temporal did not answer: the list of workflows is away", True)
    assert in_use(found)
