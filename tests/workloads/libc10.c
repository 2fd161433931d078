/* libc10.c - beside libtorch_cpu.c: what torch keeps in its other library. */
extern const long _ZN3c1019UndefinedTensorImpl10_singletonE;
const long _ZN3c1019UndefinedTensorImpl10_singletonE = 0;
