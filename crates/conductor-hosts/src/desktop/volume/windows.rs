//! Sets the volume of the default output of Windows through a COM interface.

use super::{STEP, Unavailable, Volume};
use windows::Win32::Media::Audio::Endpoints::IAudioEndpointVolume;
use windows::Win32::Media::Audio::{IMMDeviceEnumerator, MMDeviceEnumerator, eMultimedia, eRender};
use windows::Win32::System::Com::{CLSCTX_ALL, COINIT_MULTITHREADED, CoCreateInstance, CoInitializeEx};
use windows::core::Result;

pub fn set(volume: Volume) -> Option<std::result::Result<(), Unavailable>> {
    let failed = |error: windows::core::Error| format!("the volume of Windows cannot be set: {}", error.message());
    Some(change(volume).map_err(|error| Unavailable(failed(error))))
}

fn change(volume: Volume) -> Result<()> {
    // SAFETY: the calls only require that COM is initialized on this thread, which the first call
    // does. Repeating it has no effect, and COM stays initialized until the thread ends.
    unsafe {
        let _ = CoInitializeEx(None, COINIT_MULTITHREADED);
        let devices: IMMDeviceEnumerator = CoCreateInstance(&MMDeviceEnumerator, None, CLSCTX_ALL)?;
        let output = devices.GetDefaultAudioEndpoint(eRender, eMultimedia)?;
        let endpoint: IAudioEndpointVolume = output.Activate(CLSCTX_ALL, None)?;
        let scale = |percent: f32| (percent / 100.0).clamp(0.0, 1.0);
        let step = scale(STEP.into());
        let level = |level: f32| endpoint.SetMasterVolumeLevelScalar(level.clamp(0.0, 1.0), std::ptr::null());
        match volume {
            Volume::Up => level(endpoint.GetMasterVolumeLevelScalar()? + step),
            Volume::Down => level(endpoint.GetMasterVolumeLevelScalar()? - step),
            Volume::Set(percent) => level(scale(percent.into())),
            Volume::Mute => endpoint.SetMute(true, std::ptr::null()),
            Volume::Unmute => endpoint.SetMute(false, std::ptr::null()),
        }
    }
}
