"""A client of the Python SDK that a test controls: it reads commands from stdin and writes results to stdout, one JSON object per line.

python_client.py --era legacy|modern|auto [--answer accept|decline] [--token T] stdio PROGRAM ARGS... | http URL
"""
import argparse
import asyncio
import json
import os
import pty
import sys
from contextlib import asynccontextmanager

import httpx2
from mcp import Client, ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult, Implementation

words = argparse.ArgumentParser()
words.add_argument("--era", choices=["legacy", "modern", "auto"], default="legacy")
words.add_argument("--answer", choices=["accept", "decline"])
words.add_argument("--token")
words.add_argument("kind", choices=["stdio", "http"])
words.add_argument("rest", nargs=argparse.REMAINDER)
given = words.parse_args()
asked = []


async def answer(_context, params):
    asked.append(params.message)
    if given.answer == "accept":
        return ElicitResult(action="accept", content={"approve": True})
    return ElicitResult(action="decline")


def transport():
    if given.kind == "stdio":
        return stdio_client(StdioServerParameters(command=given.rest[0], args=given.rest[1:]))
    headers = {"Authorization": f"Bearer {given.token}"} if given.token else {}
    return streamable_http_client(given.rest[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))


@asynccontextmanager
async def connected():
    """Connects with the low-level class of the SDK for protocol versions with a handshake, else with the high-level class."""
    options = {"client_info": Implementation(name="python", version="1")}
    if given.answer:
        options["elicitation_callback"] = answer
    if given.era == "legacy":
        async with transport() as streams, ClientSession(streams[0], streams[1], **options) as session:
            begun = await session.initialize()
            yield session, begun.protocol_version
    else:
        mode = "2026-07-28" if given.era == "modern" else "auto"
        async with Client(transport(), mode=mode, cache=None, **options) as client:
            yield client, client.session.protocol_version


def below_this_client(argv):
    """Runs a program on a new terminal as a child of this client, as a client with a shell could do."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    said = bytearray()
    try:
        while data := os.read(terminal, 4096):
            said.extend(data)
    except OSError:
        # The system reports the end of the last process on a terminal as an error.
        pass
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"code": code, "said": said.decode(errors="replace")}


async def do(client, wish):
    kind = wish["do"]
    if kind == "list":
        return {"tools": sorted(tool.name for tool in (await client.list_tools()).tools)}
    if kind == "call":
        result = await client.call_tool(wish["name"], wish["arguments"])
        return {"failed": bool(result.is_error), "value": result.structured_content}
    if kind == "read":
        return {"text": (await client.read_resource(wish["uri"])).contents[0].text}
    if kind == "prompt":
        return {"text": (await client.get_prompt(wish["name"], wish["arguments"])).messages[0].content.text}
    if kind == "run":
        return await asyncio.to_thread(below_this_client, wish["argv"])
    return {"asked": asked}


def tell(value):
    print(json.dumps(value), flush=True)


async def main():
    async with connected() as (client, version):
        tell({"version": version})
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                tell(await do(client, json.loads(line)))
            except MCPError as fault:
                tell({"thrown": fault.error.code, "message": fault.error.message})


asyncio.run(main())
