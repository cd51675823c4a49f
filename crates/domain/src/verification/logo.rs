//! Logos of brands: URLs of images on other sites, and uploaded images.

use std::str::FromStr;

use strum::{EnumString, IntoStaticStr, VariantArray};
use uuid::Uuid;

use super::{BrandUrl, InvalidBrandUrl};
use crate::tenancy::ProjectId;

/// Path under which this deployment serves uploaded logos.
const UPLOADED_PATH: &str = "/logos/";
const DIGEST_BYTES: usize = 16;

/// Where browsers find a logo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogoUrl {
    External(BrandUrl),
    Uploaded(UploadedLogo),
}

impl LogoUrl {
    /// Returns the URL. That of an uploaded logo is a path at this deployment.
    pub fn as_str(&self) -> &str {
        match self {
            LogoUrl::External(url) => url.as_str(),
            LogoUrl::Uploaded(logo) => logo.path(),
        }
    }

    pub fn uploaded(&self) -> Option<&UploadedLogo> {
        match self {
            LogoUrl::External(_) => None,
            LogoUrl::Uploaded(logo) => Some(logo),
        }
    }

    /// Whether a text is the absolute or relative URL of this logo, which is uploaded. Clients get the absolute one,
    /// and may send it back with other settings. It does not matter at which host it is, so the deployment may move.
    pub fn is_upload_at(&self, url: &str) -> bool {
        self.uploaded().is_some_and(|logo| url.trim_end().ends_with(logo.path()))
    }
}

impl FromStr for LogoUrl {
    type Err = InvalidBrandUrl;

    fn from_str(text: &str) -> Result<Self, InvalidBrandUrl> {
        match UploadedLogo::from_path(text) {
            Some(logo) => Ok(LogoUrl::Uploaded(logo)),
            None => text.parse().map(LogoUrl::External),
        }
    }
}

/// Identifies an uploaded image by its project and a digest of its content, so that its URL never shows another image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadedLogo {
    project: ProjectId,
    format: ImageFormat,
    path: String,
}

impl UploadedLogo {
    pub fn new(project: ProjectId, digest: [u8; DIGEST_BYTES], format: ImageFormat) -> Self {
        let digest = Uuid::from_bytes(digest).simple();
        UploadedLogo { project, format, path: format!("{UPLOADED_PATH}{project}/{digest}.{}", format.extension()) }
    }

    /// Parses a path, in its canonical form only.
    pub fn from_path(path: &str) -> Option<Self> {
        let (project, name) = path.strip_prefix(UPLOADED_PATH)?.split_once('/')?;
        let (digest, extension) = name.split_once('.')?;
        let format = ImageFormat::VARIANTS.iter().copied().find(|format| format.extension() == extension)?;
        let logo = Self::new(ProjectId(project.parse().ok()?), *Uuid::try_parse(digest).ok()?.as_bytes(), format);
        (logo.path == path).then_some(logo)
    }

    pub fn project(&self) -> ProjectId {
        self.project
    }

    pub fn format(&self) -> ImageFormat {
        self.format
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the name of the file, which is unique among the logos of a project.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Format of an image. SVG is not supported, because SVG images may contain scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub enum ImageFormat {
    #[strum(serialize = "PNG")]
    Png,
    #[strum(serialize = "JPEG")]
    Jpeg,
    #[strum(serialize = "WebP")]
    WebP,
}

impl ImageFormat {
    pub const fn media_type(self) -> &'static str {
        match self {
            ImageFormat::Png => "image/png",
            ImageFormat::Jpeg => "image/jpeg",
            ImageFormat::WebP => "image/webp",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            ImageFormat::Png => "png",
            ImageFormat::Jpeg => "jpg",
            ImageFormat::WebP => "webp",
        }
    }
}

/// An image that is small enough for a logo. Its format is that of its content.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("LogoImage({format:?}, {width} × {height}, {} bytes)", content.len())]
pub struct LogoImage {
    format: ImageFormat,
    width: u32,
    height: u32,
    content: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLogo {
    #[error("a logo has at most {} KiB; save the image with fewer pixels", LogoImage::MAX_BYTES / 1024)]
    TooLarge,
    #[error("the file is empty")]
    Empty,
    #[error("SVG images may contain scripts and are not supported; save the logo as PNG or WebP")]
    Svg,
    #[error("the file is not a PNG, JPEG or WebP image")]
    UnknownFormat,
    #[error("the {} image is damaged or incomplete", .0.into_str())]
    Damaged(ImageFormat),
    #[error("animated images are not supported; save the logo as a still image")]
    Animated,
    #[error("the image is {width} × {height} pixels; a logo has at most {0} × {0}", LogoImage::MAX_SIDE)]
    TooManyPixels { width: u32, height: u32 },
}

impl LogoImage {
    pub const MAX_BYTES: usize = 64 * 1024;
    /// Maximum width and height in pixels. A small file may contain an image that takes much memory to decode.
    pub const MAX_SIDE: u32 = 2_000;

    pub fn parse(content: Vec<u8>) -> Result<Self, InvalidLogo> {
        if content.is_empty() {
            return Err(InvalidLogo::Empty);
        }
        if content.len() > Self::MAX_BYTES {
            return Err(InvalidLogo::TooLarge);
        }
        let (format, inspect): (_, fn(&[u8]) -> Inspection) = match &*content {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => (ImageFormat::Png, inspect_png),
            [0xff, 0xd8, 0xff, ..] => (ImageFormat::Jpeg, inspect_jpeg),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => (ImageFormat::WebP, inspect_webp),
            _ if is_svg(&content) => return Err(InvalidLogo::Svg),
            _ => return Err(InvalidLogo::UnknownFormat),
        };
        let Properties { width, height, is_animated } = inspect(&content).ok_or(InvalidLogo::Damaged(format))?;
        if width == 0 || height == 0 {
            return Err(InvalidLogo::Damaged(format));
        }
        if width > Self::MAX_SIDE || height > Self::MAX_SIDE {
            return Err(InvalidLogo::TooManyPixels { width, height });
        }
        if is_animated {
            return Err(InvalidLogo::Animated);
        }
        Ok(LogoImage { format, width, height, content })
    }

    pub fn format(&self) -> ImageFormat {
        self.format
    }

    pub fn width(&self) -> u32 {
        self.width
    }

    pub fn height(&self) -> u32 {
        self.height
    }

    pub fn content(&self) -> &[u8] {
        &self.content
    }
}

/// What the headers of an image say.
struct Properties {
    width: u32,
    height: u32,
    is_animated: bool,
}

/// `None`: the image is damaged.
type Inspection = Option<Properties>;

/// Reads all chunks (PNG, section 5.3). The image must end with its last chunk.
fn inspect_png(content: &[u8]) -> Inspection {
    let mut rest = content.get(8..)?;
    let mut size = None;
    let mut is_animated = false;
    loop {
        let (length, after) = rest.split_first_chunk()?;
        let (kind, after) = after.split_first_chunk::<4>()?;
        let (data, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        let (_checksum, after) = after.split_first_chunk::<4>()?;
        match (kind, &size) {
            (b"IHDR", None) => {
                let (width, data) = data.split_first_chunk()?;
                let (height, _) = data.split_first_chunk()?;
                size = Some((u32::from_be_bytes(*width), u32::from_be_bytes(*height)));
            }
            // The first chunk must be the header, and there is only one.
            (b"IHDR", Some(_)) | (_, None) => return None,
            (b"acTL", Some(_)) => is_animated = true,
            (b"IEND", Some((width, height))) => {
                return after.is_empty().then_some(Properties { width: *width, height: *height, is_animated });
            }
            (_, Some(_)) => {}
        }
        rest = after;
    }
}

/// Reads the segments up to the frame header (ITU-T T.81, section B.2.2). The image must end with the end marker.
fn inspect_jpeg(content: &[u8]) -> Inspection {
    let mut rest = content.get(2..)?;
    if !content.ends_with(&[0xff, 0xd9]) {
        return None;
    }
    loop {
        let [0xff, marker, after @ ..] = rest else { return None };
        rest = match *marker {
            // A fill byte before a marker.
            0xff => &rest[1..],
            // Markers without a segment.
            0x01 | 0xd0..=0xd7 => after,
            // Frame headers, other than the tables and extensions among them.
            0xc0..=0xcf if ![0xc4, 0xc8, 0xcc].contains(marker) => {
                let [_, _, _precision, h1, h0, w1, w0, ..] = after else { return None };
                let side = |high: &u8, low: &u8| u32::from(u16::from_be_bytes([*high, *low]));
                return Some(Properties { width: side(w1, w0), height: side(h1, h0), is_animated: false });
            }
            // The image data begins, or the image ends, without a frame header.
            0x00 | 0xd8..=0xda => return None,
            _ => {
                let (length, _) = after.split_first_chunk()?;
                let length = usize::from(u16::from_be_bytes(*length));
                after.get(length.max(2)..)?
            }
        };
    }
}

/// Reads the container's header and its first chunk (RFC 9649, sections 2.4 to 2.7). The container must be complete.
fn inspect_webp(content: &[u8]) -> Inspection {
    let (size, rest) = content.get(4..)?.split_first_chunk()?;
    if usize::try_from(u32::from_le_bytes(*size)).ok()? != rest.len() {
        return None;
    }
    let (kind, rest) = rest.get(4..)?.split_first_chunk::<4>()?;
    let data = rest.get(4..)?;
    match kind {
        b"VP8 " => {
            let [_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..] = data else { return None };
            // The upper two bits are a scale.
            let side = |low: &u8, high: &u8| u32::from(u16::from_le_bytes([*low, *high]) & 0x3fff);
            Some(Properties { width: side(w0, w1), height: side(h0, h1), is_animated: false })
        }
        b"VP8L" => {
            let [0x2f, b0, b1, b2, b3, ..] = data else { return None };
            let bits = u32::from_le_bytes([*b0, *b1, *b2, *b3]);
            let side = |bits: u32| (bits & 0x3fff) + 1;
            Some(Properties { width: side(bits), height: side(bits >> 14), is_animated: false })
        }
        b"VP8X" => {
            let [flags, _, _, _, w0, w1, w2, h0, h1, h2, ..] = data else { return None };
            let side = |b0: &u8, b1: &u8, b2: &u8| u32::from_le_bytes([*b0, *b1, *b2, 0]) + 1;
            Some(Properties { width: side(w0, w1, w2), height: side(h0, h1, h2), is_animated: flags & 0x02 != 0 })
        }
        _ => None,
    }
}

fn is_svg(content: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&content[..content.len().min(1_024)]);
    start.trim_start_matches('\u{feff}').trim_start().starts_with('<') && start.contains("<svg")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn png_chunk(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], &kind, data, &[0; 4]].concat()
    }

    fn png(width: u32, height: u32, more: &[u8]) -> Vec<u8> {
        let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 6, 0, 0, 0]].concat();
        let chunks = [png_chunk(*b"IHDR", &header), more.to_vec(), png_chunk(*b"IDAT", &[0; 20])].concat();
        [b"\x89PNG\r\n\x1a\n", &*chunks, &png_chunk(*b"IEND", &[])].concat()
    }

    fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let frame =
            [&[0xff, 0xc2, 0, 11, 8][..], &height.to_be_bytes(), &width.to_be_bytes(), &[1, 1, 0x11, 0]].concat();
        let tables = [0xff, 0xdb, 0, 4, 0, 0, 0xff, 0xff, 0xc4, 0, 2];
        [&[0xff, 0xd8, 0xff, 0xe0, 0, 4, b'J', b'F'][..], &tables, &frame, &[0xff, 0xda, 0, 2, 7, 0xff, 0xd9]].concat()
    }

    fn webp(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
        let chunk = [&kind[..], &u32::try_from(data.len()).unwrap().to_le_bytes(), data].concat();
        let size = u32::try_from(chunk.len() + 4).unwrap().to_le_bytes();
        [b"RIFF", &size[..], b"WEBP", &chunk].concat()
    }

    fn lossy(width: u16, height: u16) -> Vec<u8> {
        let frame = [&[0, 0, 0, 0x9d, 0x01, 0x2a][..], &width.to_le_bytes(), &height.to_le_bytes()].concat();
        webp(*b"VP8 ", &frame)
    }

    fn lossless(width: u32, height: u32) -> Vec<u8> {
        let bits = (width - 1) | ((height - 1) << 14);
        webp(*b"VP8L", &[&[0x2f][..], &bits.to_le_bytes()].concat())
    }

    fn extended(flags: u8, width: u32, height: u32) -> Vec<u8> {
        let side = |side: u32| (side - 1).to_le_bytes()[..3].to_vec();
        webp(*b"VP8X", &[&[flags, 0, 0, 0][..], &side(width), &side(height)].concat())
    }

    #[test]
    fn format_and_size_are_those_of_the_content() {
        for (content, format) in [
            (png(300, 200, &[]), ImageFormat::Png),
            (jpeg(300, 200), ImageFormat::Jpeg),
            (lossy(300, 200), ImageFormat::WebP),
            (lossless(300, 200), ImageFormat::WebP),
            (extended(0x10, 300, 200), ImageFormat::WebP),
        ] {
            let image = LogoImage::parse(content.clone()).unwrap();
            assert_eq!((image.format(), image.width(), image.height()), (format, 300, 200));
            assert_eq!(image.content(), content);
            // Without its end, an image is damaged.
            let incomplete = content[..content.len() - 1].to_vec();
            assert_eq!(LogoImage::parse(incomplete), Err(InvalidLogo::Damaged(format)));
        }
    }

    #[test]
    fn other_files_are_rejected() {
        let padded = |mut content: Vec<u8>, length: usize| {
            content.resize(length, 0);
            content
        };
        let too_many = |width, height| InvalidLogo::TooManyPixels { width, height };
        for (content, error) in [
            (vec![], InvalidLogo::Empty),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec(), InvalidLogo::Svg),
            (b"\xef\xbb\xbf\n<?xml version='1.0'?><svg></svg>".to_vec(), InvalidLogo::Svg),
            (b"GIF89a".to_vec(), InvalidLogo::UnknownFormat),
            (b"<!doctype html><script>alert(1)</script>".to_vec(), InvalidLogo::UnknownFormat),
            (padded(png(10, 10, &[]), LogoImage::MAX_BYTES + 1), InvalidLogo::TooLarge),
            (padded(png(10, 10, &[]), LogoImage::MAX_BYTES), InvalidLogo::Damaged(ImageFormat::Png)),
            (b"\x89PNG\r\n\x1a\n<script>alert(1)</script>".to_vec(), InvalidLogo::Damaged(ImageFormat::Png)),
            (b"\xff\xd8\xff<script>\xff\xd9".to_vec(), InvalidLogo::Damaged(ImageFormat::Jpeg)),
            (webp(*b"EXIF", &[0; 20]), InvalidLogo::Damaged(ImageFormat::WebP)),
            (png(0, 10, &[]), InvalidLogo::Damaged(ImageFormat::Png)),
            (png(2_001, 10, &[]), too_many(2_001, 10)),
            (jpeg(10, 65_535), too_many(10, 65_535)),
            (extended(0, 10, 16_777_216), too_many(10, 16_777_216)),
            (png(10, 10, &png_chunk(*b"acTL", &[0; 8])), InvalidLogo::Animated),
            (extended(0x02, 10, 10), InvalidLogo::Animated),
        ] {
            assert_eq!(LogoImage::parse(content), Err(error));
        }
        assert!(LogoImage::parse(png(2_000, 2_000, &[])).is_ok());
    }

    #[test]
    fn path_of_an_uploaded_logo_round_trips() {
        let project = ProjectId("0199b0a8-0000-7000-8000-000000000000".parse().unwrap());
        let logo = UploadedLogo::new(project, [0xab; 16], ImageFormat::Jpeg);
        let path = "/logos/0199b0a8-0000-7000-8000-000000000000/abababababababababababababababab.jpg";
        assert_eq!(logo.path(), path);
        assert_eq!(logo.file_name(), "abababababababababababababababab.jpg");
        assert_eq!(path.parse::<LogoUrl>(), Ok(LogoUrl::Uploaded(logo.clone())));
        for other in [
            path.to_uppercase(),
            path.replace(".jpg", ".svg"),
            path.replace(".jpg", ""),
            path.replace("-0000", ""),
            format!("{path}?a=b"),
            path.replace("/logos/", "/logos//"),
        ] {
            assert_eq!(UploadedLogo::from_path(&other), None, "{other}");
        }
        let uploaded = LogoUrl::Uploaded(logo);
        for (url, is_same) in [
            (path.to_owned(), true),
            (format!("http://localhost:8080{path}"), true),
            (format!("https://verify.example{path}?a"), false),
            (format!("https://verify.example{}", path.replace("ab.", "cd.")), false),
        ] {
            assert_eq!(uploaded.is_upload_at(&url), is_same, "{url}");
        }
        let external: LogoUrl = "https://shop.example/logo.png".parse().unwrap();
        assert!(external.uploaded().is_none() && !external.is_upload_at("https://shop.example/logo.png"));
    }

    proptest! {
        #[test]
        fn damaged_images_are_no_crash(
            content in prop_oneof![
                Just(png(30, 20, &[])), Just(jpeg(30, 20)), Just(lossy(30, 20)), Just(extended(0, 30, 20)),
            ],
            position: prop::sample::Index,
            byte: u8,
            end: prop::sample::Index,
        ) {
            let mut content = content;
            let position = position.index(content.len());
            content[position] = byte;
            let _ = LogoImage::parse(content.clone());
            content.truncate(end.index(content.len()));
            let _ = LogoImage::parse(content);
        }
    }
}
