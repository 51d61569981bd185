// What a build without nvcc has in place of the kernels' image: the magic of one, in little endian.

extern "C" const unsigned char kFarpagePageKernels[];
extern "C" const unsigned char kFarpagePageKernels[] = {0x50, 0xED, 0x55, 0xBA};
