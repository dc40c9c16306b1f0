"""What is said on a connection before its client is known: SaslHandshake, then tokens (KIP-43, KIP-152, KIP-368).

Sans-I/O: a `Conversation` is given frames, and says what is to be done. Only three APIs are looked at, and of others
nothing but their number: nobody has said yet who he is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

from ottla.broker.core.security.session import Session
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode, MalformedFrame, ProtocolError
from ottla.protocol.framing import Gathered
from ottla.protocol.headers import skip_tags, split_request
from ottla.protocol.primitives import uvarint
from ottla.protocol.sasl.exchange import AuthenticationFailed, Derivation, ServerExchange

MOST_STEPS: Final = 8
"""No mechanism takes more tokens."""
MOST_CLIENT_ID_BYTES: Final = 1_000
MOST_TAGS: Final = 64
MOST_TAG_BYTES: Final = 4 << 10
"""In the header of a request: no client sends any."""

Versions = Callable[[int, int, bytes, int], bytes]
"""Answers ApiVersions: by its version, correlation id, frame, and where the tags of the header or the body begin."""
_ERROR_CODE: Final = slice(8, 10)  # of its answer, whatever the version


class Mechanisms(Protocol):
    """What a listener offers.

    Attributes:
        names: in the order of the settings.
        principal_type: of those who come by it.
    """

    principal_type: str

    @property
    def names(self) -> Sequence[str]: ...
    def exchange(self, mechanism: str) -> ServerExchange: ...
    def max_reauth_ms(self, mechanism: str) -> int:
        """How long a session may last (``connections.max.reauth.ms``); 0: for ever."""
        ...


class State(Enum):
    """What a conversation waits for."""

    HANDSHAKE_OR_VERSIONS = auto()
    HANDSHAKE = auto()
    RAW_TOKENS = auto()
    TOKENS = auto()
    COMPLETE = auto()
    FAILED = auto()


class Failed(NamedTuple):
    """The connection is to be closed.

    Attributes:
        reason: for the log.
        answer: a frame that goes before, if there is one.
        at_once: the client broke the protocol, and has not tried to be somebody: it need not wait.
    """

    reason: str
    answer: bytes | None = None
    at_once: bool = False


Outcome = bytes | Derivation | Failed
"""A frame to send; or work, whose result goes to `Conversation.resume`; or the end."""


class Conversation:
    """One exchange, from the first request to the last token.

    Args:
        listener: the name of it, for the session.
        before: the session that is to be renewed: its principal and mechanism stay. None for a new connection.

    Attributes:
        state: what it waits for.
        client_id: as its last request had it; empty if that was longer than anybody's is.
        mechanism: the one that the client has chosen; empty before.
        session: of the client, once it is complete.
        lifetime_ms: how long that lasts; None: for ever.
    """

    def __init__(
        self, mechanisms: Mechanisms, versions: Versions, listener: str, before: Session | None = None
    ) -> None:
        self.state = State.HANDSHAKE_OR_VERSIONS if before is None else State.HANDSHAKE
        self.client_id = b""
        self.mechanism = ""
        self.session: Session | None = None
        self.lifetime_ms: int | None = None
        self._mechanisms = mechanisms
        self._versions = versions
        self._listener = listener
        self._before = before
        self._exchange: ServerExchange | None = None
        self._steps = 0
        self._asked: tuple[int, int] | None = None  # of SaslAuthenticate: version, correlation id

    @property
    def name(self) -> str:
        """The user that the client says it is; empty as long as it has not."""
        return "" if self._exchange is None else self._exchange.name

    @property
    def shown(self) -> Mapping[str, str]:
        """What the log may have of credentials that are not accepted."""
        return {} if self._exchange is None else self._exchange.shown

    @property
    def tells_lifetime(self) -> bool:
        """Whether the client is told when its session ends: from version 1 of SaslAuthenticate on (KIP-368)."""
        return self._asked is not None and self._asked[0] >= 1

    def take(self, frame: bytes, start: int, wall_ms: int) -> Outcome:
        """Take the frame that holds a request, or a raw token, from ``start`` to its end.

        Args:
            wall_ms: Unix time, in milliseconds.
        """
        try:
            if self.state is State.RAW_TOKENS:
                return self._token(frame[start:], wall_ms)
            return self._request(frame, start, wall_ms)
        except AuthenticationFailed as error:
            return self._refused(error)
        except ProtocolError as error:
            return self._end(f"it does not speak Kafka's protocol: {error}", at_once=True)
        except Exception as error:
            return self.failed(error)

    def resume(self, result: Any, wall_ms: int) -> Outcome:
        """Go on with the result of a `Derivation`."""
        assert self._exchange is not None
        try:
            return self._go_on(self._exchange.resume(result), wall_ms)
        except AuthenticationFailed as error:
            return self._refused(error)
        except Exception as error:
            return self.failed(error)

    def failed(self, error: BaseException) -> Failed:
        """End it for trouble of our own. Only its kind is told: its text may hold a secret."""
        reason = f"it could not be verified: {type(error).__name__}"
        return self._refused(AuthenticationFailed("Authentication could not be verified", reason))

    def broken(self, reason: str) -> Failed:
        """End it because what comes is no frame."""
        return self._end(reason)

    # -- requests

    def _request(self, frame: bytes, start: int, wall_ms: int) -> Outcome:
        key, version, correlation_id, client_id, position = split_request(frame, start)
        self.client_id = client_id if len(client_id) <= MOST_CLIENT_ID_BYTES else b""
        if self.state is State.TOKENS:
            return self._authenticate(key, version, correlation_id, frame, position, wall_ms)
        if key == ApiKey.API_VERSIONS:
            if self.state is State.HANDSHAKE:
                return self._end("ApiVersions came again where SaslHandshake has to come", at_once=True)
            _body_at(ApiKey.API_VERSIONS, version, frame, position)
            answer = self._versions(version, correlation_id, frame, position)
            served = not any(answer[_ERROR_CODE])
            self.state = State.HANDSHAKE if served else State.HANDSHAKE_OR_VERSIONS
            return answer
        if key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(version, correlation_id, frame, position)
        return self._end(f"{_name(key)} came before authentication: the client does not speak SASL", at_once=True)

    def _handshake(self, version: int, correlation_id: int, frame: bytes, position: int) -> Outcome:
        if (request := _decoded(ApiKey.SASL_HANDSHAKE, version, frame, position)) is None:
            return self._end(f"SaslHandshake has no version {version}", at_once=True)
        names = list(self._mechanisms.names)
        self.mechanism = request.mechanism
        if request.mechanism not in names:
            reason = "the listener does not have that mechanism"
            if self._before is not None:  # as Kafka does: whoever renews a session is told nothing
                return self._end(reason, at_once=True)
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            answer = _encoded(ApiKey.SASL_HANDSHAKE, version, correlation_id, error_code=code, mechanisms=names)
            return self._end(reason, answer)
        self.state = State.TOKENS if version else State.RAW_TOKENS
        if self._before is None or self._before.mechanism == request.mechanism:
            self._exchange = self._mechanisms.exchange(request.mechanism)
        return _encoded(ApiKey.SASL_HANDSHAKE, version, correlation_id, mechanisms=names)

    def _authenticate(
        self, key: int, version: int, correlation_id: int, frame: bytes, position: int, wall_ms: int
    ) -> Outcome:
        if key != ApiKey.SASL_AUTHENTICATE:
            answer = None
            served = key == ApiKey.API_VERSIONS or _is_served(key, version)
            if served and key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
                is_known = _decoded(ApiKey(key), version, frame, position) is not None
                code = ErrorCode.ILLEGAL_SASL_STATE
                answer = _encoded(ApiKey(key), version if is_known else 0, correlation_id, error_code=code)
            reason = f"{_name(key)} came in the place of a token"
            return self._end(reason, answer, at_once=not served)
        if (request := _decoded(ApiKey.SASL_AUTHENTICATE, version, frame, position)) is None:
            return self._end(f"SaslAuthenticate has no version {version}", at_once=True)
        self._asked = version, correlation_id
        return self._token(request.auth_bytes, wall_ms)

    # -- tokens

    def _token(self, token: bytes, wall_ms: int) -> Outcome:
        if self._exchange is None:  # KIP-368: the handshake succeeds, and this fails without an answer
            assert self._before is not None
            return self._end(f"it was authenticated by {self._before.mechanism}, and that cannot change")
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise AuthenticationFailed("Authentication failed: too many tokens")
        return self._go_on(self._exchange.take(token), wall_ms)

    def _go_on(self, challenge: bytes | Derivation, wall_ms: int) -> Outcome:
        if not isinstance(challenge, bytes):
            return challenge
        assert self._exchange is not None
        if self._exchange.is_complete:
            self._complete(self._exchange, wall_ms)
        return self._said(auth_bytes=challenge) or _LENGTH.pack(len(challenge)) + challenge

    def _complete(self, exchange: ServerExchange, wall_ms: int) -> None:
        principal = f"{self._mechanisms.principal_type}:{exchange.name}"
        if self._before is not None and self._before.principal != principal:
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from {self._before.principal} to {principal}"
            )
        ends: list[int] = [] if exchange.ends_ms is None else [max(0, exchange.ends_ms - wall_ms)]
        if most_ms := self._mechanisms.max_reauth_ms(self.mechanism):
            ends.append(most_ms)
        self.lifetime_ms = min(ends, default=None)
        ends_ms = None if self.lifetime_ms is None else wall_ms + self.lifetime_ms
        self.session = Session(principal, self._listener, self.mechanism, ends_ms)
        self.state = State.COMPLETE

    def _refused(self, error: AuthenticationFailed) -> Failed:
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return self._end(error.reason, self._said(error_code=code, error_message=error.told))

    def _said(self, **fields: Any) -> bytes | None:
        """The answer to SaslAuthenticate; None where tokens are raw."""
        if self._asked is None:
            return None
        return _encoded(ApiKey.SASL_AUTHENTICATE, *self._asked, **fields, session_lifetime_ms=self.lifetime_ms or 0)

    def _end(self, reason: str, answer: bytes | None = None, *, at_once: bool = False) -> Failed:
        self.state = State.FAILED
        return Failed(reason, answer, at_once)


_LENGTH = Struct(">i")


def _name(key: int) -> str:
    """A request as people call it: ``FindCoordinator``."""
    try:
        return ApiKey(key).name.title().replace("_", "")
    except ValueError:
        return f"a request with API key {key}"


def _is_served(key: int, version: int) -> bool:
    """Whether there is such a request at all."""
    try:
        return version in api(ApiKey(key)).request.versions
    except ValueError:
        return False


def _decoded(key: ApiKey, version: int, frame: bytes, position: int) -> Any:
    """The request behind the client id; None if that version is not served. Raises ProtocolError."""
    at = _body_at(key, version, frame, position)
    request = api(key).request
    return request.layout(version).decode(frame, at) if version in request.versions else None


def _body_at(key: ApiKey, version: int, frame: bytes, position: int) -> int:
    """Where the body begins, behind the tags of the header, also of a version that is not served.

    Raises:
        MalformedFrame: the tags are more than a few, or do not fit into the frame.
    """
    if api(key).request_header_version(version) < 2:
        return position
    end = skip_tags(frame, position)
    if uvarint(frame, position)[0] > MOST_TAGS or end - position > MOST_TAG_BYTES:
        raise MalformedFrame(f"more than {MOST_TAGS} header tags or {MOST_TAG_BYTES} bytes of them")
    return end


@cache
def _encoder(key: ApiKey, version: int) -> Callable[[Any, int], bytes | Gathered]:
    row = api(key)
    return row.response.layout(version).response_encoder(header_tags=bool(row.response_header_version(version)))


def _encoded(key: ApiKey, version: int, correlation_id: int, **fields: Any) -> bytes:
    """The frame of an answer."""
    return bytes(_encoder(key, version)(api(key).response(**fields), correlation_id))
