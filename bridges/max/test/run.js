// A fake Max with the bridge in it, for tests of the daemon: node run.js HOME
"use strict";

require("./fake-max.js").start(process.argv[2]);
