-- tools_search_candidates runs as its owner, portal_search. A new owner must be allowed to create in the schema, which it is for
-- this moment only.
GRANT CREATE ON SCHEMA public TO portal_search;
ALTER FUNCTION tools_search_candidates OWNER TO portal_search;
REVOKE CREATE ON SCHEMA public FROM portal_search;
REVOKE ALL ON FUNCTION tools_search_candidates FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tools_search_candidates TO portal_app, portal_worker;
