"""The same echo tool on FastMCP, for comparison."""
from fastmcp import FastMCP

server = FastMCP("echo")


@server.tool
def test_echo(text: str) -> dict:
    return {"echo": text}


server.run(show_banner=False)
