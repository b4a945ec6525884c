"""The settings of the REST API's two libraries: Django REST framework and drf-spectacular, which writes the OpenAPI document."""

from __future__ import annotations

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["portal.http.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["portal.http.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.http.bodies.JsonBody"],
    "DEFAULT_THROTTLE_CLASSES": ["portal.http.rate_limits.KeyRate"],
    "DEFAULT_SCHEMA_CLASS": "tools.api.schema.auto_schema.PortalSchema",
    "EXCEPTION_HANDLER": "portal.http.problems.problem_response",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tool Portal",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "DESCRIPTION": "A catalogue of tools for agents: imported, edited, embedded, and found by what they do. Every refusal is a "
    "problem (RFC 9457) whose `type` is a page of its own.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "PREPROCESSING_HOOKS": ["tools.api.schema.components.only_v1"],
    "POSTPROCESSING_HOOKS": ["tools.api.schema.components.with_problem"],
    "COMPONENT_SPLIT_REQUEST": True,
    # What a request may leave out is not said to be missing in an answer.
    "COMPONENT_SPLIT_PATCH": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "/static/portal/favicon.svg",
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "persistAuthorization": False, "validatorUrl": None},
}
