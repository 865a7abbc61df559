{
    "patcher": {
        "fileversion": 1,
        "appversion": { "major": 9, "minor": 0, "revision": 0, "architecture": "x64", "modernui": 1 },
        "classnamespace": "box",
        "rect": [ 100.0, 100.0, 420.0, 220.0 ],
        "boxes": [
            {
                "box": {
                    "id": "obj-1",
                    "maxclass": "comment",
                    "numinlets": 1,
                    "numoutlets": 0,
                    "patching_rect": [ 20.0, 15.0, 370.0, 34.0 ],
                    "text": "Conductor: keep this patch open. It connects to the daemon on this machine.",
                    "varname": "conductor_note"
                }
            },
            {
                "box": {
                    "id": "obj-2",
                    "maxclass": "newobj",
                    "numinlets": 1,
                    "numoutlets": 2,
                    "outlettype": [ "", "" ],
                    "patching_rect": [ 20.0, 70.0, 240.0, 22.0 ],
                    "text": "node.script conductor.js @autostart 1",
                    "varname": "conductor_node"
                }
            },
            {
                "box": {
                    "id": "obj-3",
                    "maxclass": "newobj",
                    "numinlets": 1,
                    "numoutlets": 1,
                    "outlettype": [ "" ],
                    "patching_rect": [ 20.0, 120.0, 140.0, 22.0 ],
                    "text": "v8 conductor-v8.js",
                    "varname": "conductor_v8"
                }
            }
        ],
        "lines": [
            { "patchline": { "destination": [ "obj-3", 0 ], "source": [ "obj-2", 0 ] } },
            { "patchline": { "destination": [ "obj-2", 0 ], "source": [ "obj-3", 0 ] } }
        ]
    }
}
