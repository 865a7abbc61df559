/* The one function of bcryptprimitives.dll that programs in Rust import. Wine 8 lacks this library,
   so the tests under Wine place this file next to the programs. It is never shipped. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
    return RtlGenRandom(data, (ULONG)length);
}
