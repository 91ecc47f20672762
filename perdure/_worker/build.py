"""What Temporal knows of the build of a versioned worker."""

from __future__ import annotations

from datetime import timedelta

from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus as Status
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentVersionRequest
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

_HAS_RUN = (
    Status.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT,
    Status.WORKER_DEPLOYMENT_VERSION_STATUS_RAMPING,
    Status.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING,
    Status.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED,
)
_RPC = timedelta(seconds=5)


async def has_run(worker: Worker) -> bool:
    """Whether lifecycles have run on this worker's build. False if the worker is unversioned.

    Raises:
        RPCError: Temporal gave no answer.
    """
    config = worker.config(active_config=True).get("deployment_config")
    if config is None or not config.use_worker_versioning:
        return False
    request = DescribeWorkerDeploymentVersionRequest(
        namespace=worker.client.namespace,
        deployment_version=WorkerDeploymentVersion(
            deployment_name=config.version.deployment_name, build_id=config.version.build_id
        ),
    )
    try:
        seen = await worker.client.workflow_service.describe_worker_deployment_version(request, timeout=_RPC)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return seen.worker_deployment_version_info.status in _HAS_RUN
