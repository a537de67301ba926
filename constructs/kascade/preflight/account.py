"""Calls to AWS that only read: bounded, whole, and every failure is a sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

import boto3
import botocore
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConfigParseError,
    CredentialRetrievalError,
    InvalidConfigError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from kascade.errors import KascadeError

_ATTEMPTS: Final = 4
_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 20
_LONGEST: Final = 200

_NO_CREDENTIALS: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
    InvalidConfigError,
    # A file that the settings of credentials name, such as a token's.
    OSError,
)
_STALE: Final = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_DENIED: Final = frozenset(
    {
        "403",
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "AuthorizationErrorException",
        "Forbidden",
        "NotAuthorized",
        "UnauthorizedException",
        "UnauthorizedOperation",
    }
)
_THROTTLED: Final = frozenset(
    {
        "EC2ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottledException",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)

_PREFIXES: Final = {"cloudwatch": "cloudwatch", "logs": "logs"}
"""Where a right's prefix is not the name that requests are signed for."""

_RIGHTS: Final = {("s3", "HeadBucket"): "s3:ListBucket", ("s3", "ListObjectsV2"): "s3:ListBucket"}
"""Where a right is not called as its operation."""


class CannotLookError(Exception):
    """AWS gave no answer.

    Attributes:
        right: The right that is missing, or None where something else is wrong.
    """

    def __init__(self, said: str, *, right: str | None = None) -> None:
        self.right = right
        super().__init__(said)


class Account:
    """One account in one region, as its credentials see it.

    Several threads may ask at once; who asks for the same gets the same answer.
    """

    def __init__(self, session: Any, *, region: str) -> None:
        self.region = region
        self._session = session
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}
        self._answers: dict[str, Future[Any]] = {}

    def call(
        self, service: str, operation: str, *, absent: Sequence[str] = (), **parameters: Any
    ) -> dict[str, Any] | None:
        """Ask once.

        Args:
            service: As boto3 calls it.
            operation: As AWS calls it, such as ``DescribeVpcs``.
            absent: Codes of errors that say that there is no such thing.
            parameters: Of the operation.

        Returns:
            The answer, or None where there is no such thing.

        Raises:
            CannotLookError: There was no answer.
            KascadeError: Credentials are good no longer, or a setting is no use.
        """

        def ask(client: Any) -> dict[str, Any]:
            answer: dict[str, Any] = _method(client, operation)(**parameters)
            return answer

        return self._remembered(service, operation, parameters, ask, absent)  # type: ignore[no-any-return]

    def items(
        self,
        service: str,
        operation: str,
        key: str,
        *,
        enough: Callable[[list[Any]], bool] = lambda _: False,
        absent: Sequence[str] = (),
        **parameters: Any,
    ) -> list[Any]:
        """Ask for a list, to its last page.

        Args:
            service: As above.
            operation: As above.
            key: Of the list in the answer.
            enough: Says of what has come so far that the rest is not needed.
            absent: As above; the list is empty then.
            parameters: As above.

        Raises:
            CannotLookError: There was no answer.
            KascadeError: Credentials are good no longer, or a setting is no use.
        """

        def ask(client: Any) -> list[Any]:
            found: list[Any] = []
            name = botocore.xform_name(operation)
            if not client.can_paginate(name):
                return list(_method(client, operation)(**parameters).get(key) or [])
            for page in client.get_paginator(name).paginate(**parameters):
                found += page.get(key) or []
                if enough(found):
                    break
            return found

        return self._remembered(service, operation, parameters, ask, absent) or []

    def right(self, service: str, operation: str) -> str:
        """Name the right that an operation needs."""
        prefix = _PREFIXES.get(service)
        if prefix is None:
            prefix = self._client(service).meta.service_model.signing_name
        return _RIGHTS.get((service, operation), f"{prefix}:{operation}")

    def _client(self, service: str) -> Any:
        # boto3's sessions are not made for several threads.
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._new(service)
            return self._clients[service]

    def _new(self, service: str) -> Any:
        try:
            return self._session.client(
                service,
                region_name=self.region,
                config=Config(
                    retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                    connect_timeout=_CONNECT_SECONDS,
                    read_timeout=_READ_SECONDS,
                ),
            )
        except _NO_CREDENTIALS:
            raise
        except (BotoCoreError, ValueError) as error:
            # Nothing was sent yet, so it is no answer but a setting.
            raise _setting(error) from None

    def _remembered(
        self,
        service: str,
        operation: str,
        parameters: Mapping[str, Any],
        ask: Callable[[Any], Any],
        absent: Sequence[str],
    ) -> Any:
        key = f"{service} {operation} {sorted(parameters.items())!r}"
        with self._lock:
            mine = key not in self._answers
            future = self._answers.setdefault(key, Future())
        if mine:
            try:
                future.set_result(self._answer(service, operation, ask, absent))
            except BaseException as error:
                future.set_exception(error)
        return future.result()

    def _answer(
        self, service: str, operation: str, ask: Callable[[Any], Any], absent: Sequence[str]
    ) -> Any:
        try:
            return ask(self._client(service))
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in absent:
                return None
            if code in _STALE:
                raise _ended(f"{code} at {service} {operation}") from None
            raise self._refused(service, operation, code, error) from None
        except _NO_CREDENTIALS as error:
            raise _ended(_short(error)) from None
        except BotoCoreError as error:
            msg = f"{service} did not answer {operation}: {_short(error)}"
            raise CannotLookError(msg) from None

    def _refused(
        self, service: str, operation: str, code: str, error: ClientError
    ) -> CannotLookError:
        if code in _DENIED:
            right = self.right(service, operation)
            return CannotLookError(f"the right {right} is missing", right=right)
        if code in _THROTTLED:
            return CannotLookError(
                f"{service} had too many requests and answered none of {_ATTEMPTS} attempts at "
                f"{operation} ({code})"
            )
        said = str(error.response.get("Error", {}).get("Message", ""))
        return CannotLookError(f"{service} rejected {operation}: {code} {said}".strip()[:_LONGEST])


def _method(client: Any, operation: str) -> Any:
    return getattr(client, botocore.xform_name(operation))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:_LONGEST].rstrip(". ")


def _ended(why: str) -> KascadeError:
    """Credentials were good at first; a table of rows that nobody could look at helps nobody."""
    return KascadeError(
        f"AWS takes the credentials in use no longer ({why}): sign in again (aws sts "
        "get-caller-identity has to answer), and look once more"
    )


def _setting(error: Exception) -> KascadeError:
    return KascadeError(
        f"AWS cannot be asked: {_short(error)}; correct that setting (AWS_ENDPOINT_URL or another "
        "AWS_ variable of the environment, or the same in ~/.aws/config)"
    )


def open_session() -> Any:
    """Take the credentials that AWS's own tools would take here.

    Raises:
        KascadeError: The profile that is asked for is not there, or a setting is no use.
    """
    try:
        return boto3.session.Session()
    except ConfigParseError as error:
        msg = f"AWS cannot be asked: {_short(error)}; mend that file, or name another"
        raise KascadeError(msg) from None
    except ProfileNotFound as error:
        msg = f"AWS cannot be asked: {_short(error)}; set AWS_PROFILE to a profile that exists"
        raise KascadeError(msg) from None
    except (BotoCoreError, ValueError) as error:
        raise _setting(error) from None


def whose(account: Account) -> tuple[str, str]:
    """Ask who is asking.

    Returns:
        The number of the account, and the caller's ARN.

    Raises:
        KascadeError: There are no credentials, they are not taken, a setting is no use, or AWS is
            out of reach.
    """
    try:
        answer = account._client("sts").get_caller_identity()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        why = (
            f"they are wrong or too old, or {account.region} is not enabled for the account; sign "
            "in again (aws sts get-caller-identity has to answer)"
            if code in _STALE
            else "see whether aws sts get-caller-identity answers"
        )
        msg = f"AWS does not take the credentials in use ({code}): {why}"
        raise KascadeError(msg) from None
    except _NO_CREDENTIALS as error:
        msg = (
            f"there are no AWS credentials to look with ({_short(error)}); set AWS_PROFILE, or "
            "sign in, so that aws sts get-caller-identity answers"
        )
        raise KascadeError(msg) from None
    except BotoCoreError as error:
        msg = (
            f"AWS cannot be reached from here ({_short(error)}); look at the network, a proxy or "
            "AWS_ENDPOINT_URL"
        )
        raise KascadeError(msg) from None
    except ValueError as error:
        # Such as a port that no host has.
        raise _setting(error) from None
    return str(answer["Account"]), str(answer["Arn"])
