# cmake -DINPUT=plan.fbs -DOUTPUT=plan_schema.h -P embed_schema.cmake: the schema as a string of C++, for `show --plan`.
file(READ ${INPUT} schema)
file(WRITE ${OUTPUT} "#pragma once\nnamespace preheat::cli {\ninline constexpr char kPlanSchema[] = R\"schema(${schema})schema\";\n}\n")
