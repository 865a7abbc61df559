"""A whole session of the Python SDK over stdio or HTTP: list, call, error, resource, prompt, approval. Prints one JSON line."""
import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def story(read, write):
    async with ClientSession(read, write) as session:
        await session.initialize()
        tools = await session.list_tools()
        good = await session.call_tool("test_echo", {"text": "hi"})
        bad = await session.call_tool("test_echo", {"text": 5})
        asks = await session.call_tool("test_danger", {"text": "x"})
        resource = await session.read_resource("test://echo")
        prompt = await session.get_prompt("say", {"text": "hi"})
        def structured(result):
            return getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
        def failed(result):
            return bool(getattr(result, "is_error", False) or getattr(result, "isError", False))
        print(json.dumps({
            "tools": sorted(tool.name for tool in tools.tools),
            "good": structured(good),
            "bad": [failed(bad), structured(bad)["code"]],
            "asks": [failed(asks), structured(asks)["code"]],
            "resource": resource.contents[0].text,
            "prompt": prompt.messages[0].content.text,
        }))


async def main():
    kind, *rest = sys.argv[1:]
    if kind == "stdio":
        async with stdio_client(StdioServerParameters(command=rest[0], args=rest[1:])) as (read, write):
            await story(read, write)
    else:
        async with streamable_http_client(rest[0]) as streams:
            await story(streams[0], streams[1])


asyncio.run(main())
