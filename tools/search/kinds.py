"""What a kind of entity needs to be searched, as migration operations. `search_candidates` knows no table by its name.

A kind `note` is added by one migration (tests/tools/search/test_kinds.py has it whole):

1. The table of entities, with `tenant_id`, `id`, `active` and a generated `search_vector`, whose name part has the weight A; the
   table of their embeddings, a subclass of EntityEmbedding, which brings the signature.
2. `postings_table("notes_posting")` and `isolate("notes_posting", worker="SELECT")`.
3. `keep_postings("notes_note", "notes_posting")` and `index_signatures("notes_noteembedding")`.
4. `let_search_read(...)` for the three tables.
5. `search_kind_note`, a function with the parameters of `search_kind_tool` (sql/0020_kind_tool.sql): the names of the tables, and
   the condition that a row must meet, made of filters and rights. The filter `names` also tells which entity a question is the
   name of; a kind without names passes over it. It is no business of anybody's but search: `of_search(...)`.

The SQL of an operation is written into the migration that calls it, and pinned there (tests/contract/test_frozen_sql.py).
"""

from __future__ import annotations

from django.db.migrations import RunSQL


def postings_table(postings: str) -> RunSQL:
    """The keyword index of a kind. No reference to the entity: the trigger deletes its postings with it. Bytewise order, as lexemes
    have no language."""
    return RunSQL(
        f"""
        CREATE TABLE {postings} (
            tenant_id uuid NOT NULL, lexeme text COLLATE "C" NOT NULL, entity_id uuid NOT NULL, weight real NOT NULL
        );
        CREATE UNIQUE INDEX {postings}_once ON {postings} (tenant_id, lexeme, entity_id) INCLUDE (weight);
        """,
        f"DROP TABLE {postings}",
    )


def keep_postings(entities: str, postings: str) -> RunSQL:
    """The triggers that write a row a lexeme and active entity. A function of the kind's own, since its statements are then planned
    once a connection and not for every row.

    An entity's postings are only ever touched under the lock of its own row, so writers of different entities cannot deadlock
    here. The rows to delete are found by the old lexemes, which spares an index by entity.
    """
    return RunSQL(
        f"""
        CREATE FUNCTION {postings}_keep() RETURNS trigger
        LANGUAGE plpgsql
        SET search_path = pg_catalog, public, pg_temp
        AS $$
        BEGIN
            IF TG_OP <> 'INSERT' THEN
                DELETE FROM {postings} AS posting
                USING unnest(OLD.search_vector) AS entry
                WHERE posting.tenant_id = OLD.tenant_id AND posting.lexeme = entry.lexeme AND posting.entity_id = OLD.id;
            END IF;
            IF TG_OP <> 'DELETE' AND NEW.active THEN
                INSERT INTO {postings} (tenant_id, lexeme, entity_id, weight)
                SELECT NEW.tenant_id, term.lexeme, NEW.id, term.weight FROM tools_posting_weights(NEW.search_vector) AS term;
            END IF;
            RETURN NULL;
        END;
        $$;
        CREATE TRIGGER {entities}_postings_insert_delete AFTER INSERT OR DELETE ON {entities}
        FOR EACH ROW EXECUTE FUNCTION {postings}_keep();
        CREATE TRIGGER {entities}_postings_update AFTER UPDATE ON {entities}
        FOR EACH ROW WHEN (OLD.search_vector IS DISTINCT FROM NEW.search_vector OR OLD.active <> NEW.active)
        EXECUTE FUNCTION {postings}_keep();
        """,  # noqa: S608 - names of our own tables
        f"DROP FUNCTION {postings}_keep() CASCADE",
    )


def index_signatures(embeddings: str) -> RunSQL:
    """The index that the semantic arm reads: a tenant's vectors, and their signatures without a look at the table."""
    return RunSQL(
        f"CREATE INDEX {embeddings}_signatures ON {embeddings} (tenant_id, slot) INCLUDE (entity_id, signature) "
        "WHERE active AND status = 'ready'",
        f"DROP INDEX {embeddings}_signatures",
    )


def let_search_read(*tables: str) -> RunSQL:
    """`portal_search`, which search_candidates runs as, may read the tables and nothing else of them."""
    named = ", ".join(tables)
    return RunSQL(f"GRANT SELECT ON {named} TO portal_search", f"REVOKE ALL ON {named} FROM portal_search")


def of_search(function: str, *, callers: str = "") -> RunSQL:
    """The function is portal_search's, and `callers` may run it. A new owner must be allowed to create in the schema, which it is
    for this moment only."""
    grant = f"GRANT EXECUTE ON FUNCTION {function} TO {callers};" if callers else ""
    return RunSQL(
        f"""
        GRANT CREATE ON SCHEMA public TO portal_search;
        ALTER FUNCTION {function} OWNER TO portal_search;
        REVOKE CREATE ON SCHEMA public FROM portal_search;
        REVOKE ALL ON FUNCTION {function} FROM PUBLIC;
        {grant}
        """,
        RunSQL.noop,
    )
