/* The one function of bcryptprimitives.dll that programs in Rust import. Wine 8 lacks this library,
   so the tests under Wine build it from this file. It is never shipped. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
    return RtlGenRandom(data, (ULONG)length);
}

/* The first registration of a window class in a process initializes the window system. Wine 8 waits
   for the lock of the loader while it does so. Another thread that loads a library has this lock,
   and waits for the window system: see deadlock.c. The program has only one thread here. */
BOOL WINAPI DllMain(HINSTANCE library, DWORD reason, void *reserved)
{
    WNDCLASSW class = {.lpfnWndProc = DefWindowProcW, .hInstance = library, .lpszClassName = L"first"};

    if (reason == DLL_PROCESS_ATTACH && RegisterClassW(&class))
        UnregisterClassW(class.lpszClassName, library);
    return TRUE;
}
