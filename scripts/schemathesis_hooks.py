"""How schemathesis sends bodies that are rules line by line: as the text they are."""

import schemathesis


@schemathesis.serializer("application/jsonl", "text/csv")
def lines(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
