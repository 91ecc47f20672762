"""What the chart renders is valid for Kubernetes, KEDA and Temporal's Worker Controller, and what is wrong is named."""

from __future__ import annotations

import importlib
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.helm import CHART, KUBERNETES, ChartError, lint, rendered
from perdure._worker.plugin import REPORTING
from tests.infra.chart.manifests import manifests, pods

HERE = Path(__file__).parent / "chart"
PAGE = CHART.parents[1] / "docs/fleet.md"
VALUES = sorted((HERE / "values").glob("*.yaml"))
kubernetes_validate: Any = importlib.import_module("kubernetes_validate")
jsonschema: Any = importlib.import_module("jsonschema")


def check(manifest: dict[str, Any]) -> None:
    """Raise if it is not valid: unknown fields are errors."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    own = HERE / "crds" / f"{manifest['kind'].lower()}-{group.partition('.')[0]}-{version}.json"
    if not own.exists():
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        return
    jsonschema.validate(manifest, json.loads(own.read_text()))
    for pod in pods(manifest):  # its schema leaves the pod to Kubernetes
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        check({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec})


@pytest.mark.parametrize("values", VALUES, ids=lambda each: each.stem)
def test_all_that_it_renders_is_valid(values: Path) -> None:
    assert "0 chart(s) failed" in lint(values)
    found = manifests(values)
    for each in found:
        check(each)
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(names) == len(set(names))


def test_the_values_of_the_manual_are_valid(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(PAGE.read_text().partition("```yaml\n")[2].partition("```")[0])
    found = manifests(file)
    for each in found:
        check(each)
    named = {each["metadata"]["name"] for each in found}
    assert set(re.findall(r"`(shop-\w+)`", PAGE.read_text())) - named == {
        *("shop-console", "shop-reconciliation")  # of further values
    }


def test_the_scaler_of_each_build_in_the_manual_is_valid() -> None:
    [template] = [each for each in yaml_of(PAGE) if each.get("kind") == "WorkerResourceTemplate"]
    assert template["spec"]["workerDeploymentRef"] == {"name": "shop-worker"}
    scaler = template["spec"]["template"]
    assert scaler["spec"]["scaleTargetRef"] == {}
    scaler["spec"]["scaleTargetRef"] = {"name": "shop-worker-1"}  # as the controller fills it in
    check({**scaler, "metadata": {"name": "shop-worker-1"}})


def yaml_of(page: Path) -> list[dict[str, Any]]:
    """The blocks of YAML on a page."""
    return [yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)]


def test_a_field_that_kubernetes_does_not_have_is_seen() -> None:
    [worker] = [each for each in manifests(HERE / "values/controller.yaml") if each["kind"] == "WorkerDeployment"]
    pods(worker)[0]["containers"][0]["comand"] = []
    with pytest.raises(Exception, match="comand"):
        check(worker)
    worker["spec"]["rollouts"] = {}
    with pytest.raises(Exception, match="rollouts"):
        check(worker)


@pytest.mark.parametrize("values", VALUES, ids=lambda each: each.stem)
def test_no_pod_may_do_more_than_it_must_and_each_has_time_to_end(values: Path) -> None:
    for pod in [pod for each in manifests(values) for pod in pods(each)]:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["shareProcessNamespace"]
        assert not pod["automountServiceAccountToken"]
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            given = {each["name"]: each.get("value") for each in container["env"]}
            assert not [name for name, value in given.items() if value is not None and "DATABASE_URL" in name]
            if "PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT" in given:  # the supervisor of several processes waits 5 s longer
                longest = math.ceil(float(given["PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT"] or 0)) + REPORTING + 5
                assert pod["terminationGracePeriodSeconds"] > longest


def _steps(*given: tuple[int, str]) -> dict[str, Any]:
    steps = [{"rampPercentage": ramp, "pauseDuration": pause} for ramp, pause in given]
    return {"versioning": {"rollout": {"strategy": "Progressive", "steps": steps}}}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"app": "shop/app"}, "/app"),
        ({"image": {"repository": "shop"}}, "/image"),
        ({"temporal": {"address": "temporal"}}, "/temporal/address"),
        ({"worker": {"replicas": -1}}, "/worker/replicas"),
        ({"worker": {"replica": 1}}, "replica"),
        ({"worker": {"maxUnavailable": "0%"}}, "/worker/maxUnavailable"),
        ({"volumes": [{"name": "tmp", "emptyDir": {}}]}, "the chart has a volume tmp itself"),
        ({"volumeMounts": [{"name": "a", "mountPath": "/tmp/"}]}, "the chart mounts a volume at /tmp/ itself"),
        ({"volumeMounts": [{"name": "a"}]}, "/volumeMounts/0"),
        ({"services": {"tasks": ["relays"]}}, "/services/tasks/0"),
        ({"versioning": {"mode": "controller"}, "autoscaling": {"enabled": True}}, "autoscaling.enabled=true with"),
        ({"versioning": {"rollout": {"strategy": "Progressive", "steps": []}}}, "/versioning/rollout/steps"),
        (_steps((10, "29s")), "/versioning/rollout/steps/0/pauseDuration"),
        (_steps((10, "0m")), "/versioning/rollout/steps/0/pauseDuration"),
        (_steps((10, "30s"), (10, "1h30m")), "versioning.rollout.steps: rampPercentage=10 follows 10"),
        ({"autoscaling": {"enabled": True, "maxReplicas": 1}}, "autoscaling.maxReplicas=1 is less than"),
        *(
            ({"autoscaling": {"enabled": True}, "temporal": temporal}, "KEDA connects with TLS only if")
            for temporal in (
                {"tls": {"enabled": True}},
                {"tls": {"enabled": True, "authoritySecret": "a"}},
                {"tls": {"enabled": True, "authoritySecret": "a"}, "apiKeySecret": "b"},
            )
        ),
        ({"temporal": {"tls": {"clientSecret": "a"}}}, "temporal.tls.enabled is false"),
        ({"networkPolicy": {"restrictEgress": True}}, "networkPolicy.egress is empty"),
        ({"metrics": {"enabled": False, "podMonitor": {"enabled": True}}}, "no pod has metrics"),
        ({"metrics": {"port": 9465}}, "metrics.port=9465 is health.port, too"),
        ({"health": {"port": 8484}, "console": {"enabled": True}}, "console.port=8484 is health.port, too"),
        ({"environment": {"A: B": "x"}}, "/environment"),
        ({"environment": {"CHAT_ID": 1234567890123456789}}, "/environment/CHAT_ID"),
        ({"environment": {"SHOWN": True}}, "/environment/SHOWN"),
        ({"podLabels": {"app.kubernetes.io/name": "shop"}}, "/podLabels/app.kubernetes.io"),
        ({"podLabels": {"shop": 1}}, "/podLabels/shop"),
        ({"podAnnotations": {"prometheus.io/scrape": True}}, "/podAnnotations/prometheus.io"),
        ({"nodeSelector": {"ssd": True}}, "/nodeSelector/ssd"),
        ({"listen": 'a"b'}, "/listen"),
        ({"listen": None}, "missing property 'listen'"),  # Helm removes a default by null
        ({"versioning": None}, "missing property 'versioning'"),
        ({"health": {"port": None}}, "at '/health': missing property 'port'"),
        ({"database": {"keys": {"worker": None}}}, "at '/database/keys': missing property 'worker'"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_value_that_can_not_be_used_is_named(given: dict[str, Any], named: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    plain = yaml.safe_load((HERE / "values/plain.yaml").read_text())
    file.write_text(yaml.safe_dump(plain | given if "app" in given or "image" in given else _merged(plain, given)))
    with pytest.raises(ChartError) as error:
        rendered("shop", file)
    assert named in str(error.value)
    assert str(error.value).count("\n") < 8


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {name: {**one.get(name, {}), **value} if isinstance(value, dict) else value for name, value in other.items()}
    return {**one, **both}


def test_plain_manifests_are_those_of_the_release_that_is_named() -> None:
    print_manifests = (sys.executable, "-m", "infra.helm")
    text = subprocess.check_output([*print_manifests, "two", HERE / "values/plain.yaml"], text=True)
    assert {each["metadata"]["name"].partition("-")[0] for each in yaml.safe_load_all(text) if each} == {"two"}
    unnamed = subprocess.run([*print_manifests, "", HERE / "values/plain.yaml"], capture_output=True, text=True)
    assert "give RELEASE=name" in unnamed.stderr


def test_a_release_has_a_name_with_which_each_object_has_one_that_kubernetes_takes() -> None:
    for name in ("a" * 37, "shop-2"):
        for each in yaml.safe_load_all(rendered(name, HERE / "values/everything.yaml")):
            assert each["kind"] != "CronJob" or len(each["metadata"]["name"]) <= 52  # validateCronJobName
            assert each["kind"] != "Service" or re.fullmatch(
                "[a-z]([a-z0-9-]{0,61}[a-z0-9])?", each["metadata"]["name"]
            )
    for name in ("a" * 38, "shop.v1", "1shop"):
        with pytest.raises(ChartError, match=f'the release is called "{name}": a name begins with a letter'):
            rendered(name, HERE / "values/everything.yaml")


@pytest.mark.parametrize("values", ["everything", "controller"])
def test_a_name_that_yaml_would_read_as_something_else_stays_a_name(values: str) -> None:
    text = rendered("null", HERE / f"values/{values}.yaml", HERE / "values/numbers.yaml")
    found = [each for each in yaml.safe_load_all(text) if each]
    for each in found:
        check(each)
    assert {labels_of(each)["app.kubernetes.io/instance"] for each in found if pods(each)} == {"null"}
    for pod in [pod for each in found for pod in pods(each)]:
        assert {"NO", "NULL"} <= {each["name"] for each in pod["containers"][0]["env"]}


def test_the_network_policy_admits_what_others_must_reach_and_nothing_else() -> None:
    found = manifests(HERE / "values/everything.yaml")
    [policy] = [each["spec"] for each in found if each["kind"] == "NetworkPolicy"]
    labels = [labels_of(each) for each in found if pods(each)]
    assert len(labels) > 4
    assert all(policy["podSelector"]["matchLabels"].items() <= each.items() for each in labels)
    admitted = {port["port"]: rule.get("from", "everybody") for rule in policy["ingress"] for port in rule["ports"]}
    listening = {
        port["containerPort"]: port["name"]
        for pod in [pod for each in found for pod in pods(each)]
        for container in pod["containers"]
        for port in container.get("ports", [])
    }
    assert {listening[port]: who for port, who in admitted.items()} == {
        "metrics": [{"namespaceSelector": {}}],
        "http": "everybody",
    }
    assert {*listening.values()} - {listening[port] for port in admitted} == {"health"}  # which the node asks
    assert [port["port"] for rule in policy["egress"] for port in rule["ports"]] == [53, 53, 5432]


def test_the_pod_monitor_finds_each_pod_that_has_metrics() -> None:
    found = manifests(HERE / "values/everything.yaml")
    [monitor] = [each["spec"] for each in found if each["kind"] == "PodMonitor"]
    [endpoint] = monitor["podMetricsEndpoints"]
    named = {
        each["metadata"]["name"]
        for each in found
        if pods(each) and monitor["selector"]["matchLabels"].items() <= labels_of(each).items()
        for port in pods(each)[0]["containers"][0].get("ports", [])
        if port["name"] == endpoint["port"]
    }
    assert named == {"shop-worker", "shop-services"}


def labels_of(manifest: dict[str, Any]) -> dict[str, str]:
    """The labels of the pods of a manifest."""
    spec = manifest["spec"].get("jobTemplate", manifest)["spec"]
    return dict(spec["template"]["metadata"]["labels"])


def test_each_pod_has_the_variables_as_they_were_written_and_the_files_of_the_values() -> None:
    found = [pod for each in manifests(HERE / "values/everything.yaml") for pod in pods(each)]
    assert len(found) == 5
    for pod in found:
        assert pod["serviceAccountName"] == "shop"
        assert "postgres" in [each["name"] for each in pod["volumes"]]
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            given = {each["name"]: _expanded(each["value"]) for each in container["env"] if "value" in each}
            wanted = {
                "LARGEST": "1234567890123456789",
                "SLOWEST": "0.050",
                "PRICE": "pa$$ $(PERDURE_LOG)",
                "NAMED": "1e6",
            }
            assert wanted.items() <= given.items()
            assert "/etc/perdure/postgres" in [each["mountPath"] for each in container["volumeMounts"]]
            assert {*container["resources"]} == {"requests", "limits"}  # else a quota refuses the pod
    [console] = [each for pod in found for each in pod["containers"] if each["name"] == "console"]
    assert "--grant=$$(A)=look" in map(_expanded, console["command"])


def _expanded(text: str) -> str:
    """What Kubernetes makes of it: third_party/forked/golang/expansion/expand.go."""
    return re.sub(r"\$(\$|\(.*?\))", lambda found: "$" if found[1] == "$" else "expanded", text)


def test_a_variable_that_the_chart_sets_is_refused_among_the_further_ones(tmp_path: Path) -> None:
    for values in VALUES:
        containers = [each for found in manifests(values) for pod in pods(found) for each in pod["containers"]]
        further = yaml.safe_load(values.read_text()).get("environment", {})
        own = {each["name"] for container in containers for each in container["env"]} - {*further, "PERDURE_LOG"}
        assert "PERDURE_HEALTH" in own
        for name in sorted(own):
            (file := tmp_path / "values.yaml").write_text(yaml.safe_dump({"environment": {name: "x"}}))
            with pytest.raises(ChartError, match=rf"environment\.{name}: the chart sets this variable itself, by \w+"):
                manifests(values, file)


def test_a_further_variable_holds_for_all_that_reads_it(tmp_path: Path) -> None:
    (file := tmp_path / "values.yaml").write_text("environment: {PERDURE_LOG: text, PERDURE_TASK_QUEUE: orders}")
    found = manifests(HERE / "values/everything.yaml", file)
    for container in [each for manifest in found for pod in pods(manifest) for each in pod["containers"]]:
        assert [each["value"] for each in container["env"] if each["name"] == "PERDURE_LOG"] == ["text"]
    [scaler] = [each for each in found if each["kind"] == "ScaledObject"]
    assert scaler["spec"]["triggers"][0]["metadata"]["taskQueue"] == "orders:shop"


def test_each_value_has_a_rule_and_a_default_and_is_required() -> None:
    """Else a template fails, or renders nothing, where null removes it, or `--reuse-values` has no such value."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    del schema["properties"]["global"]
    _compare("values", schema, yaml.safe_load((CHART / "values.yaml").read_text()))


def _compare(name: str, rule: dict[str, Any], values: Any) -> None:
    if "properties" in rule and "app.kubernetes.io/name" not in rule["properties"]:
        assert {*rule["properties"]} == {*values} == {*rule["required"]}, name
        for each, inner in rule["properties"].items():
            _compare(f"{name}.{each}", inner, values[each])


def test_each_variable_that_it_sets_is_a_setting() -> None:
    text = "".join(each.read_text() for each in (CHART / "templates").iterdir())
    from perdure import Settings

    known = {f"PERDURE_{name.upper()}" for name in Settings.model_fields}
    assert {*re.findall(r"PERDURE_[A-Z_]+[A-Z]", text)} <= known
