/* For module_kt.c: uses the exports of more modules than a module may use. */
#include "module.h"

int mt_part_0(void), mt_part_1(void), mt_part_2(void), mt_part_3(void), mt_part_4(void);
int mt_part_5(void), mt_part_6(void), mt_part_7(void), mt_part_8(void);

static int whole_init(void)
{
	return mt_part_0() + mt_part_1() + mt_part_2() + mt_part_3() + mt_part_4() + mt_part_5() +
	       mt_part_6() + mt_part_7() + mt_part_8();
}
module_init(whole_init);
