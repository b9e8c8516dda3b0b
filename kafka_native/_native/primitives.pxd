cpdef str exact_text(text)
