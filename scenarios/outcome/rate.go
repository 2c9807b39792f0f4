package outcome

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// z is the two-sided 95 % point of the standard normal distribution.
const z = 1.959963984540054

// Wilson is the 95 % score interval of the chance of something that came k times
// in n independent trials. With p = k/n and z = 1.96 it is
//
//	(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)
//
// Unlike p ± z·√(p(1−p)/n) it has a width where k is 0 or n, and never leaves
// [0, 1]. Source: E. B. Wilson, "Probable inference, the law of succession, and
// statistical inference", Journal of the American Statistical Association 22
// (1927), 209–212. Where nothing was tried it is [0, 1].
func Wilson(k, n int) (low, high float64) {
	if n <= 0 {
		return 0, 1
	}
	all, p := float64(n), float64(k)/float64(n)
	middle := p + z*z/(2*all)
	half := z * math.Sqrt(p*(1-p)/all+z*z/(4*all*all))
	whole := 1 + z*z/all
	low, high = (middle-half)/whole, (middle+half)/whole
	// Rounding must not spoil what is exact at the ends.
	if k == 0 {
		low = 0
	}
	if k == n {
		high = 1
	}
	return low, high
}

// Rate says how often something came in n trials, with its interval in percent:
// "37 of 1000 (3.7 %, 95 %: 2.7–5.1 %)"; where it never came, how often it may
// come at most: "0 of 1000: at most 0.38 %".
func Rate(k, n int) string {
	low, high := Wilson(k, n)
	if k == 0 {
		return fmt.Sprintf("0 of %d: at most %s %%", n, percent(high))
	}
	return fmt.Sprintf("%d of %d (%s %%, 95 %%: %s–%s %%)", k, n, percent(float64(k)/float64(n)), percent(low), percent(high))
}

// percent writes a share with a digit behind the point, or two digits that count where
// that is more, and what is near the whole with as many of what is missing.
func percent(share float64) string {
	x := 100 * share
	least := min(x, 100-x)
	digits := 0
	if least > 0 {
		digits = max(1, 1-int(math.Floor(math.Log10(least))))
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
