#include "abi_facts.h"
/* clean C: the headers compile and every fact holds */
int main(void) { return ACL_SUCCESS; }
