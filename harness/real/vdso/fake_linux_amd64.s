#include "textflag.h"

// func fake()
//
// The wrong clock. It is never called here: its bytes are copied into the process,
// where the vDSO's functions jump to it. It follows the C calling convention and is
// position-independent. A stub has put the address of the control block into R11 and
// the function's number into R10: 0 clock_gettime(DI, *SI), 1 gettimeofday(*DI, SI),
// 2 time(*DI). It changes only caller-saved registers and 32 bytes of the red zone.
//
// The control block is a wall clock and a monotonic clock of 64 bytes each: a count
// of changes, and two lines {real0, fake0, rate}. The count's lowest bit selects the
// newer line. The other one is in effect before the newer one's real0. The count
// changes both before and after the older line is overwritten.
TEXT ·fake(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ R11, R9         // the control block
	MOVQ DI, R8          // the first argument
	CMPL R10, $1
	JLT  call            // clock_gettime: DI and SI are as the system call expects them
	XORL DI, DI          // the other two read CLOCK_REALTIME,
	MOVQ R8, SI          // gettimeofday into *tv, converted below,
	CMPL R10, $2
	JEQ  redzone
	TESTQ SI, SI
	JNE  call
	XORL AX, AX          // gettimeofday(NULL, …)
	RET
redzone:
	LEAQ -32(SP), SI     // time into the red zone
call:
	MOVQ R9, R11         // the clock in the control block
	CMPL DI, $0          // CLOCK_REALTIME
	JEQ  adjust
	CMPL DI, $5          // CLOCK_REALTIME_COARSE
	JEQ  adjust
	CMPL DI, $11         // CLOCK_TAI
	JEQ  adjust
	ADDQ $64, R11
	CMPL DI, $1          // CLOCK_MONOTONIC
	JEQ  adjust
	CMPL DI, $4          // CLOCK_MONOTONIC_RAW
	JEQ  adjust
	CMPL DI, $6          // CLOCK_MONOTONIC_COARSE
	JEQ  adjust
	CMPL DI, $7          // CLOCK_BOOTTIME
	JEQ  adjust
	MOVL $228, AX        // clock_gettime: CPU time and the like stay true
	SYSCALL
	RET
adjust:
	MOVQ R11, -16(SP)
retry:
	MOVQ -16(SP), R11
	MOVQ (R11), CX
	MOVQ CX, -8(SP)      // the count of changes, compared below
	MOVL $228, AX
	SYSCALL              // changes CX and R11
	TESTQ AX, AX
	JNE  done
	MOVQ -16(SP), R11
	MOVQ -8(SP), CX
	MOVQ   (SI), AX
	IMUL3Q $1000000000, AX, AX
	ADDQ   8(SI), AX     // AX = t
	ANDQ   $1, CX
	IMUL3Q $24, CX, CX
	LEAQ   8(R11)(CX*1), CX // the newer line
	CMPQ   AX, (CX)
	JGE    inforce
	LEAQ   40(R11)(R11*1), DX // the sum of both lines' addresses
	SUBQ   CX, DX
	MOVQ   DX, CX        // the older line
inforce:
	SUBQ   (CX), AX
	IMULQ  16(CX)        // DX:AX = (t − real0) · rate
	SHRQ   $32, DX, AX
	ADDQ   8(CX), AX
	MOVQ   -8(SP), CX
	CMPQ   CX, (R11)
	JNE    retry         // it was changed meanwhile
	MOVQ   $1000000000, R11
	XORL   DX, DX
	DIVQ   R11           // AX seconds, DX nanoseconds
	CMPL   R10, $2
	JEQ    seconds
	MOVQ   AX, (SI)
	CMPL   R10, $1
	JEQ    micros
	MOVQ   DX, 8(SI)
	XORL   AX, AX
done:
	RET
micros:
	MOVQ   DX, AX
	XORL   DX, DX
	MOVQ   $1000, R11
	DIVQ   R11
	MOVQ   AX, 8(SI)
	XORL   AX, AX
	RET
seconds:
	TESTQ  R8, R8
	JEQ    done
	MOVQ   AX, (R8)
	RET
	BYTE $0xf4; BYTE $0xcc; BYTE $0xf4; BYTE $0xcc; BYTE $0xf4; BYTE $0xcc; BYTE $0xf4; BYTE $0xcc // the end marker

// func fakeAddr() uintptr
//
// A func value of fake would be the address of a wrapper.
TEXT ·fakeAddr(SB), NOSPLIT, $0-8
	LEAQ ·fake(SB), AX
	MOVQ AX, ret+0(FP)
	RET
