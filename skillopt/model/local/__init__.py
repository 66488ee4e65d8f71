"""Models that run in this process, on the CPU: llama.cpp through `xllamacpp`."""
