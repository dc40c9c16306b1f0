"""SaslAuthenticate (key 36) where it does not belong, as in `ottla.broker.handlers.sasl_handshake`."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(request: SaslAuthenticateRequest, ctx: RequestContext, services: Services) -> SaslAuthenticateResponse:
    text = "SaslAuthenticate request received after successful authentication, or where there is none"
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=text)
