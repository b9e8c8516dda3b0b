# cython: freethreading_compatible=True
"""`implemented_by`: public methods with a Python declaration and a compiled body."""

cdef extern from *:
    """
    /* Returns a compiled method's descriptor with another docstring. It is called as fast. */
    static PyObject *kn_method_with_doc(PyObject *method, const char *doc)
    {
        PyTypeObject *type = PyDescr_TYPE(method);
        if (Py_TYPE(method) == &PyMethodDescr_Type) {
            PyMethodDef *definition = PyMem_Malloc(sizeof *definition);
            if (definition == NULL)
                return PyErr_NoMemory();
            *definition = *((PyMethodDescrObject *)method)->d_method;
            definition->ml_doc = doc;
            return PyDescr_NewMethod(type, definition);
        }
        struct wrapperbase *base = PyMem_Malloc(sizeof *base);
        if (base == NULL)
            return PyErr_NoMemory();
        *base = *((PyWrapperDescrObject *)method)->d_base;
        base->doc = doc;
        return PyDescr_NewWrapper(type, base, ((PyWrapperDescrObject *)method)->d_wrapped);
    }
    static void kn_method_rename(PyObject *method, PyObject *qualified_name)
    {
        Py_INCREF(qualified_name);
        Py_XSETREF(((PyDescrObject *)method)->d_qualname, qualified_name);
    }
    """
    object kn_method_with_doc(object method, const char *doc)
    void kn_method_rename(object method, object qualified_name)

cdef object METHOD_TYPES = (type(str.join), type(str.__len__))
cdef list docs = []  # keeps the texts alive to which the descriptors point


def implemented_by(method not None):
    """Decorate a method's declaration, which has a signature and a docstring but no body.

    Calls go straight to ``method`` of a compiled class.
    """
    if not isinstance(method, METHOD_TYPES):
        raise TypeError(f"a method of a compiled class is expected, not {method!r}")

    def implement(declaration):
        signature = method.__text_signature__
        text = declaration.__doc__
        if signature is not None:
            text = f"{method.__name__}{signature}\n--\n\n{text}"
        doc = text.encode()
        docs.append(doc)
        implemented = kn_method_with_doc(method, doc)
        kn_method_rename(implemented, declaration.__qualname__)
        return implemented

    return implement
