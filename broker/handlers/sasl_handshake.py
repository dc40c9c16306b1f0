"""SaslHandshake (key 17) where it does not belong: it is for connections that authenticate, or have to again.

Those are served by `ottla.broker.net.authentication`, before a handler is reached.
"""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(request: SaslHandshakeRequest, ctx: RequestContext, services: Services) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
