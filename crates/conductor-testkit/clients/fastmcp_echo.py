"""The echo tool of `src/bin/bare.rs`, on FastMCP, for comparison. It serves stdio, or HTTP if a port is given as argument."""
import sys

from fastmcp import FastMCP

server = FastMCP("echo")


@server.tool
def test_echo(text: str) -> dict:
    return {"echo": text}


if len(sys.argv) > 1:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="error")
else:
    server.run(show_banner=False)
