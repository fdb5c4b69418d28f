"""OCI images: read from archives and layouts, verified, unpacked once into the store."""

from repotrial.sandbox._images._blobs import ImageDigestError, ImageUnreadableError
from repotrial.sandbox._images._layer import ImageCompressionError, ImageTooLargeError
from repotrial.sandbox._images._limits import ImageLimits
from repotrial.sandbox._images._manifest import ImageConfig, ImagePlatformError
from repotrial.sandbox._images._open import ImageNotStoredError, UnpackedImage, import_image, open_image
from repotrial.sandbox._images._rootfs import ImageMemberError

__all__ = [
    "ImageCompressionError",
    "ImageConfig",
    "ImageDigestError",
    "ImageLimits",
    "ImageMemberError",
    "ImageNotStoredError",
    "ImagePlatformError",
    "ImageTooLargeError",
    "ImageUnreadableError",
    "UnpackedImage",
    "import_image",
    "open_image",
]
