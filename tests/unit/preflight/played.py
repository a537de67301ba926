"""An AWS that answers from a table: boto3 in front of it is the real one.

Parameters are checked by botocore as always, and every answer against AWS's own description of the
operation, so that a test cannot play what AWS would never say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import boto3
import botocore.session
from botocore.exceptions import EndpointConnectionError
from botocore.validate import ParamValidator

Parameters = Mapping[str, Any]


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """What AWS answers instead, by its code."""

    def __init__(self, code: str, message: str = "played", status: int = 400) -> None:
        self.code, self.message, self.status = code, message, status
        super().__init__(code)


class Unreachable(Exception):  # noqa: N818
    """No answer at all."""


Answer = Mapping[str, Any] | Refused | Unreachable | Callable[[Parameters], Any]

DENIED = Refused("AccessDenied", status=403)
THROTTLED = Refused("ThrottlingException")


class _Status:
    def __init__(self, code: int) -> None:
        self.status_code = code


class _Session:
    """Makes each client once: that takes longer than all its answers."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._clients: dict[str, Any] = {}

    def client(self, service: str, **settings: Any) -> Any:
        if service not in self._clients:
            self._clients[service] = self._inner.client(service, **settings)
        return self._clients[service]


_LOADER = botocore.session.Session().get_component("data_loader")


class PlayedAws:
    """A session of boto3 whose every call is answered here.

    Attributes:
        answers: By service and operation, such as ``ec2.DescribeVpcs``.
        asked: Every call with its parameters.
        wrong: What was asked without an answer, and answers that AWS could not give.
    """

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def session(self) -> Any:
        """Return the session."""
        inner = botocore.session.Session()
        inner.register_component("data_loader", _LOADER)  # the descriptions are read once
        inner.set_credentials("played", "played")
        inner.set_config_variable("region", "us-west-2")
        inner.register("before-parameter-build", self._keep)
        inner.register("before-call", self._answer)
        return _Session(boto3.session.Session(botocore_session=inner))

    def operations(self) -> set[str]:
        """Return every operation that was asked for."""
        return {name for name, _ in self.asked}

    def _keep(self, params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        context["played"] = dict(params)

    def _answer(self, model: Any, context: dict[str, Any], **_: object) -> Any:
        name = f"{model.service_model.service_name}.{model.name}"
        params = context.get("played", {})
        with self._lock:
            self.asked.append((name, params))
        answer = self.answers.get(name)
        if callable(answer):
            try:
                answer = answer(params)
            except Refused as refused:
                answer = refused
        if answer is None:
            self.wrong.append(f"{name} was asked and has no answer")
            answer = Refused("NotPlayed")
        if isinstance(answer, Unreachable):
            raise EndpointConnectionError(endpoint_url=f"https://{name}")
        if isinstance(answer, Refused):
            body = {"Error": {"Code": answer.code, "Message": answer.message}}
            return _Status(answer.status), {
                **body,
                "ResponseMetadata": {"HTTPStatusCode": answer.status},
            }
        if model.output_shape is not None:
            report = ParamValidator().validate(dict(answer), model.output_shape)
            known = set(model.output_shape.members)
            if report.has_errors() or set(answer) - known:
                unknown = sorted(set(answer) - known)
                self.wrong.append(f"{name}: {report.generate_report()} unknown: {unknown}")
        return _Status(200), {**answer, "ResponseMetadata": {"HTTPStatusCode": 200}}
