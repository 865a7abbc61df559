/* The one function of bcryptprimitives.dll that programs in Rust import. Wine 8 lacks this library,
   so the tests under Wine build it from this file. It is never shipped. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
    return RtlGenRandom(data, (ULONG)length);
}
