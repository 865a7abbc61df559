//! Enums whose variants each have one fixed name, used on the wire, in the configuration file and
//! in messages.

/// An enum declared by `named_enum!`.
pub trait Named: Copy + 'static {
    /// Every name with its variant, in the order of declaration.
    const NAMED: &'static [(&'static str, Self)];
}

/// Declares an enum and the names of its variants: `as_str`, `Display`, `FromStr` and serde.
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $enum:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $enum { $($(#[$variant_meta])* $variant),+ }

        impl $enum {
            /// Every variant, in the order of declaration.
            #[allow(dead_code, reason = "not every enum uses the list of its variants")]
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the wire, in the file and in messages.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl $crate::named_enum::Named for $enum {
            const NAMED: &'static [(&'static str, Self)] = &[$(($name, Self::$variant)),+];
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $enum {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(format!("expected one of {}", [$($name),+].join(", "))),
                }
            }
        }

        impl serde::Serialize for $enum {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $enum {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Adds `NAMES` and `name` to an enum with fields: the names of its variants, as written in the
/// configuration file.
macro_rules! variant_names {
    ($enum:ident { $($variant:ident),+ $(,)? }) => {
        impl $enum {
            /// The name of every variant, in the order of the macro call.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($variant)),+];

            /// The name of the variant.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => stringify!($variant)),+ }
            }
        }
    };
}

/// Implements serde for a type through its `Display` and `FromStr`.
macro_rules! serde_as_text {
    ($type:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use {named_enum, serde_as_text, variant_names};
