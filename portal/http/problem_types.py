"""Every type of problem that the API answers with: what a page under /docs/problems/ says of it."""

from __future__ import annotations

from dataclasses import dataclass

from portal.outbound.errors import UNREACHABLE

NO_WORKING_KEY = (
    "There is no API key here, or it is mistyped, expired or revoked. Send `Authorization: Bearer KEY`."
)


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One type: its status, why it happens, what the caller can do, and a `detail` as it may look."""

    name: str
    status: int
    cause: str
    fix: str
    example: str

    @property
    def url(self) -> str:
        return f"/docs/problems/{self.name}"


_TYPES = (
    ProblemType(
        "validation_error", 400,
        "The body, a parameter or a header cannot be read, or holds a value that is not allowed there. Where the body is well "
        "formed but contradicts itself, the status is 422.",
        "`errors` names each place: a JSON pointer into the body, or the name of the parameter. Correct these and send again.",
        "top_k: Ensure this value is less than or equal to 50.",
    ),
    ProblemType(
        "invalid_cursor", 400,
        "The `cursor` was not made by this list, or was cut or changed on its way.",
        "Take `next` or `next_cursor` from the last page as they are, or begin without a cursor.",
        "This cursor is none of ours. Start again without it.",
    ),
    ProblemType(
        "authentication_failed", 401,
        "There was no API key, or it is mistyped, expired or revoked. The answer does not tell which.",
        "Send `Authorization: Bearer KEY`. A new key comes from `manage.py create_api_key` or from the admin; one that has expired gets "
        "a new secret from `manage.py rotate_api_key NAME` or from the admin.",
        NO_WORKING_KEY,
    ),
    ProblemType(
        "permission_denied", 403,
        "The key is valid and lacks the scope that `detail` names.",
        "Use a key with that scope. `GET /api/v1/me` says what a key may do.",
        "This key lacks the scope tools:write.",
    ),
    ProblemType(
        "not_found", 404,
        "There is no such address, or no such thing that this key may see. Things that this key may not see, such as those of another tenant, get the same answer.",
        "Check the address, the `namespace` and the key. Lists show what there is.",
        "There is no tool 'send_mail' here.",
    ),
    ProblemType(
        "method_not_allowed", 405,
        "This address exists, but not for this method.",
        "The header `Allow` names the methods that there are.",
        'Method "PUT" not allowed.',
    ),
    ProblemType(
        "not_acceptable", 406,
        "The header `Accept` asks for a form that this answer does not have.",
        "Ask for `application/json`, or leave the header out.",
        "Could not satisfy the request Accept header.",
    ),
    ProblemType(
        "conflict", 409,
        "The state of the resource does not allow this.",
        "Read it again, and decide by what it is now.",
        "This tool has nothing to embed, is inactive, or embedding is disabled.",
    ),
    ProblemType(
        "name_taken", 409,
        "Another thing has this name already; it may be an inactive one.",
        "Choose another name, or change the thing that has it.",
        "There is a tool 'send_mail' in 'public' already.",
    ),
    ProblemType(
        "managed_by_source", 409,
        "This tool comes from a source, and what was asked for can only be changed there.",
        "Change it at its source and import again.",
        "This tool is managed by the source 'billing'.",
    ),
    ProblemType(
        "busy", 409,
        "Somebody else is changing the same thing at this moment.",
        "Send the request again after a second.",
        "Another import of this source is running.",
    ),
    ProblemType(
        "already_running", 409,
        "A request with the same `Idempotency-Key` has not ended yet, or a job that does the same is not over; the header "
        "`Location` then names that job.",
        "Wait and send the same request again: it is answered with what the first one did. A job can be looked at, and cancelled.",
        "The first request with this Idempotency-Key is still running.",
    ),
    ProblemType(
        "removals_need_confirmation", 409,
        "More than a fifth of the source's endpoints are missing from the document; `removed` and `active` count them. A document "
        "that was cut on its way looks like that, too.",
        "Look at what would vanish with `dry_run=true`, then send the same request with `confirm_removals` set to true.",
        "12 of 40 endpoints of billing would vanish, more than a fifth. Confirm the removals if that is meant.",
    ),
    ProblemType(
        "plan_outgrown", 409,
        "The source has been planned again since, so this plan is out of date.",
        "Look at the newest sync of the source, and apply that one.",
        "A later plan has taken the place of this one.",
    ),
    ProblemType(
        "precondition_failed", 412,
        "The thing was changed since you read it, so your change might undo somebody's work.",
        "Read it again, apply the change to what it is now, and send `If-Match` with the new ETag, which is also `current_etag`.",
        "The tool was changed meanwhile.",
    ),
    ProblemType(
        "payload_too_large", 413,
        "The body or the document is larger than the limit.",
        "Send less: 1 MB of JSON, 20 MB of a document.",
        "The body is larger than 1 MB.",
    ),
    ProblemType(
        "unsupported_media_type", 415,
        "The media type of the body is not supported here.",
        "Send `application/json`; documents are uploaded as `multipart/form-data`.",
        'Unsupported media type "text/plain" in request.',
    ),
    ProblemType(
        "unprocessable", 422,
        "The request can be read, and what it asks for contradicts itself, or names an address or command that is not allowed.",
        "`detail` and `errors` say what.",
        "This cannot be done.",
    ),
    ProblemType(
        "idempotency_mismatch", 422,
        "This `Idempotency-Key` was sent within 24 hours with another body.",
        "Use a new key for a new request; repeat a request with exactly its body.",
        "This Idempotency-Key belongs to a request with another body.",
    ),
    ProblemType(
        "invalid_source_document", 422,
        "The document is no OpenAPI document, list of MCP tools or LightAPI description that can be imported.",
        "`detail` says what is wrong and where. Correct the document and import it again.",
        "This is neither JSON nor YAML.",
    ),
    ProblemType(
        "precondition_required", 428,
        "A change must say which version of the thing it was made for.",
        "Send the ETag of the GET as `If-Match`.",
        'Send the version you have seen as `If-Match: "v17"` (the ETag of the GET).',
    ),
    ProblemType(
        "rate_limited", 429,
        "The key has used up its requests of this minute.",
        "Wait as many seconds as `Retry-After` says. `RateLimit` in every answer says what is left.",
        "Request was throttled. Expected available in 12 seconds.",
    ),
    ProblemType(
        "too_many_jobs", 429,
        "As many jobs of this tenant as there may be at a time are waiting or running.",
        "Wait until some of them have ended, or cancel some. `GET /api/v1/jobs` lists them.",
        "The limit of unfinished jobs (500) is reached. Wait until some have ended, or cancel some.",
    ),
    ProblemType(
        "internal_error", 500,
        "Something went wrong here; it is not the caller's mistake.",
        "Give the `request_id` to the people who run the portal; it finds the case in their log.",
        "Something went wrong here. The request id finds it in the log.",
    ),
    ProblemType(
        "upstream_error", 502,
        "The address of the document or of the MCP server gave no usable answer. Forbidden, closed and filtered addresses look "
        "the same on purpose, except those of servers that the installation names.",
        "Check that the address is public, or named in the setting `IMPORT_ALLOWED_HOSTS`, answers without a redirect, and holds what it "
        "should; then send again.",
        UNREACHABLE,
    ),
    ProblemType(
        "unavailable", 503,
        "The database did not answer in time or failed, or other imports are being read: one worker is always reserved for other requests.",
        "Send the request again in a moment; Retry-After says when.",
        "The database did not answer in time. Try again in a moment.",
    ),
    ProblemType(
        "upstream_timeout", 504,
        "The address of the document or of the MCP server was reached, and its answer took too long.",
        "Try again when it is faster; a sync as a job waits longer than a request.",
        "The document took more than 30 s to arrive.",
    ),
    ProblemType(
        "error", 400,
        "The request was refused for a reason that has no type of its own.",
        "`status` and `detail` say what is known.",
        "Bad Request",
    ),
)  # fmt: skip

PROBLEM_TYPES = {one.name: one for one in _TYPES}
